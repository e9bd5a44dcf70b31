//! Fairness on the bench: one tenant with a long backlog, and another that sends one event after the other.
//!
//! The steps are in `phase::fairness`.

mod plan;
mod report;
mod table;

pub use plan::Fairness;
pub use report::{BacklogKind, FairnessCase, FairnessReport, LaneChoice};

pub(crate) use plan::{BUSY, neighbour};
pub(crate) use table::tables;
