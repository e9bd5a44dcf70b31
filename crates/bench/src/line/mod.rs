//! Line benchmark: latency of `next` while a million items wait.
//!
//! Ten queues, twenty skills of which each item requires three, two people for each item, and one item in a
//! hundred that a person may not have. The tables are filled by statements, because an import would take far
//! longer; requests use HTTP. `phase::line` drives it.

mod callers;
mod fill;
mod plan;
mod report;
mod shape;
mod table;

pub use plan::LineBench;
pub use report::{LineFigure, LineReport};

pub(crate) use callers::{LineCallers, LineQuestion};
pub(crate) use fill::{bar_from_the_head, fill_line};
pub(crate) use shape::LineShape;
pub(crate) use table::line_tables;
