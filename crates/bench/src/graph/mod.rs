//! Graph benchmark: shapes, the executor that performs the nodes, and verification.
//!
//! `phase::graph` drives it. Nothing here knows how the engine schedules: it defines the nodes and afterwards
//! reads the outcome of each.

mod executor;
mod outcome;
mod report;
mod shape;
mod table;

pub use report::{GraphReport, GraphRun, GraphsReport, NodeCostGrowth};
pub use shape::{GraphBench, GraphShape};

pub(crate) use executor::{BenchExecutor, EXECUTOR};
pub(crate) use outcome::verify_graph;
pub(crate) use table::graph_tables;
