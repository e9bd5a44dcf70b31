//! Devices on the bench: a roster that is heard of, runs that are given to it, and what they do with them.
//!
//! Who runs it is `phase::devices`. A device here is a name: whoever drives the runs acts in the name of the one that was
//! chosen.

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
