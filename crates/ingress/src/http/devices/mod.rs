//! Devices over HTTP: registration, heartbeats and assignments.

pub(super) mod assignments;
pub(crate) mod heartbeat;
pub(super) mod roster;
pub(crate) mod views;
pub(super) mod watch;
