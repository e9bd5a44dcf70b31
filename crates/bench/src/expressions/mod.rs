//! `millstream bench expressions`: the cost of the most expensive step.
//!
//! Hostile definitions, graphs and queues (those that once took gigabytes, and generated ones) are decided
//! one after the other in this process, each with the budget of one step. Nothing else runs: no store, no
//! HTTP. The same cases, smaller, are a test with a counting allocator (`tests/expression_memory.rs`).

mod cases;
mod generate;
mod measure;

pub use cases::{CaseScale, HostileCase, reviewed_cases};
pub use generate::generated_cases;
pub use measure::{ExpressionReport, measure_cases, render_report};
