//! Runs of devices, for every transport: the roster, the acts of devices, and their waits.
//!
//! `core::claim` decides; this module loads, steps and writes ([`millstream_store::running`]).

pub(crate) mod acting;
mod around;
pub(crate) mod assignments;
pub(crate) mod beat;
mod counted;
pub(crate) mod ears;
pub(crate) mod fleet;
pub(crate) mod leave;
pub(crate) mod refused;
pub(crate) mod runs;
pub(crate) mod watch;
