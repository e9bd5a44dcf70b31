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

pub use plan::Devices;
pub use report::{DevicesReport, DevicesRun};

pub(crate) use create::{Creation, Seat};
pub(crate) use drive::{Driven, drive};
pub(crate) use outcome::all_are;
pub(crate) use roster::{Heartbeats, Roster};
pub(crate) use table::tables;
