//! A long line on the bench: how soon people are given something when a million items wait.
//!
//! Ten queues, twenty skills of which each item asks for three, two people for each item, and one item in a hundred that a
//! person may not have. The tables are filled by statements, not by an import, which would take far longer; who asks
//! does so over HTTP. Who runs it is `phase::line`.

mod callers;
mod fill;
mod plan;
mod report;
mod shape;
mod table;

pub use plan::Line;
pub use report::{LineFigure, LineReport};

pub(crate) use callers::{Asking, Callers};
pub(crate) use fill::{bar_from_the_head, fill};
pub(crate) use shape::Shape;
pub(crate) use table::tables;
