//! How each fault is made to happen, undone, and seen to have bitten.
//!
//! A fault that nobody noticed proves nothing. So every injection answers with what was seen of it, from
//! outside the code under test where possible: the state of a process, counters of a proxy, statistics of
//! Redis, the log of Postgres.

mod caught;
mod inject;
mod network;
mod postgres;
mod processes;
mod redis;
mod rolling;
pub(crate) mod seen;

pub use inject::{Bite, Ground, Injected, inject};
