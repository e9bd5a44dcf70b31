//! Fairness benchmark: one tenant with a long backlog, and another that sends single events.
//!
//! `phase::fairness` drives it.

mod plan;
mod report;
mod table;

pub use plan::FairnessBench;
pub use report::{BacklogKind, FairnessCase, FairnessReport, LaneChoice};

pub(crate) use plan::{BUSY, quiet_tenant};
pub(crate) use table::fairness_tables;
