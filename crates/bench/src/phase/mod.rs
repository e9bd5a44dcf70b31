//! The parts of a bench, each with an engine of its own from start to end.
//!
//! [`throughput`] is the common course; [`backlog`] and [`history`] differ in what comes before and
//! after; [`latency`] sends at set rates; [`pollers`] lets workers outside the engine wait; [`graph`] runs graphs.

pub(crate) mod backlog;
pub(crate) mod graph;
pub(crate) mod history;
pub(crate) mod latency;
mod load;
pub(crate) mod pollers;
pub(crate) mod throughput;
mod window;
