//! Injection of faults, their removal, and the evidence that they had an effect.
//!
//! A fault without an effect proves nothing. So every injection returns evidence of its effect, from outside
//! the code under test where possible: the state of a process, counters of a proxy, statistics of Redis, the
//! log of Postgres.

mod caught;
mod inject;
mod network;
mod postgres;
mod processes;
mod redis;
mod rolling;
pub(crate) mod seen;

pub use inject::{FaultEffect, FaultGround, InjectedFault, inject_fault};
