//! Runs of devices, for every transport: the roster, the acts of devices, and their waits.
//!
//! `devices::claim` decides; this module loads, steps and writes ([`millstream_store::run_service`]).

pub(crate) mod acts;
pub(crate) mod assignments;
pub(crate) mod batcher;
mod deps;
mod environment;
pub(crate) mod heartbeat;
pub(crate) mod leave;
pub(crate) mod refusals;
pub(crate) mod registration;
mod run_metrics;
pub(crate) mod runs;
pub(crate) mod watch;

pub(crate) use deps::DeviceDeps;
pub(crate) use environment::DeviceEnvironment;
