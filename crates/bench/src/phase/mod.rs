//! Phases of a bench, each with an engine of its own from start to end.
//!
//! [`throughput`] is the common sequence; [`backlog`] and [`history`] add steps before and after; [`latency`]
//! sends at set rates; [`pollers`] measures waiting external workers; [`graph`] runs graphs; [`people`] and
//! [`mod@line`] measure work for people, [`devices`] device runs, [`fairness`] two tenants.

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
