//! Runs of devices, whatever the transport: the roster, what devices do, and what they wait for.
//!
//! Everything is decided by `core::claim`; here it is loaded, stepped and written ([`millstream_store::running`]).

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
