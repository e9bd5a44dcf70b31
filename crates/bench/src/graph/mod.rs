//! Graph benchmark: shapes, the executor that performs the nodes, and verification.
//!
//! `phase::graph` drives it. Nothing here knows how the engine schedules: it defines the nodes and afterwards
//! reads the outcome of each.

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
