//! Graphs on the bench: their shapes, the executor that performs them, and what came of it.
//!
//! Who runs them is `phase::graph`. Nothing here knows how the engine schedules: it says which nodes there are
//! and afterwards reads back what became of each.

mod executor;
mod outcome;
mod report;
mod shape;
mod table;

pub use report::{GraphReport, GraphRun, GraphsReport, Growth};
pub use shape::{GraphShape, Graphs};

pub(crate) use executor::{EXECUTOR, Executor};
pub(crate) use outcome::passed;
pub(crate) use table::tables;
