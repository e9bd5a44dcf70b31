//! Devices over HTTP: they make themselves known, say that they are there, and ask for work.

pub(super) mod assignments;
pub(super) mod heartbeat;
pub(super) mod roster;
mod views;
