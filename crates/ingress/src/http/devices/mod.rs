//! Devices over HTTP: they make themselves known, say that they are there, and ask for work.

pub(super) mod assignments;
pub(crate) mod heartbeat;
pub(super) mod roster;
pub(crate) mod views;
pub(super) mod watch;
