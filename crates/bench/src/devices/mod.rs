//! Device benchmark: a roster of devices with heartbeats, runs assigned to them, and their progress.
//!
//! `phase::devices` drives it. A device here is a name: the driver of a run acts in the name of the device
//! that was chosen.

mod create;
mod drive;
mod outcome;
mod plan;
mod report;
mod roster;
mod table;

pub use plan::DeviceBench;
pub use report::{DevicesReport, DevicesRun};

pub(crate) use create::{BenchSeat, RunCreation};
pub(crate) use drive::{DrivenRuns, drive_runs};
pub(crate) use outcome::verify_all_have_status;
pub(crate) use roster::{BenchRoster, RosterHeartbeats};
pub(crate) use table::device_tables;
