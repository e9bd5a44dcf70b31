//! The parts of a bench, each with an engine of its own from start to end.
//!
//! [`throughput`] is the common course; [`backlog`] and [`history`] differ in what comes before and
//! after; [`latency`] sends at set rates; [`pollers`] lets workers outside the engine wait; [`graph`] runs graphs;
//! [`people`] and [`mod@line`] are about people, [`devices`] about devices, [`fairness`] about two tenants.

pub(crate) mod backlog;
pub(crate) mod devices;
pub(crate) mod fairness;
pub(crate) mod graph;
pub(crate) mod history;
pub(crate) mod latency;
pub(crate) mod line;
mod load;
pub(crate) mod people;
pub(crate) mod pollers;
pub(crate) mod throughput;
mod watched;
mod window;
