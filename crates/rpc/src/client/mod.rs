//! Calling executors.
//!
//! Reading order: `options` (how connections are made), `pool` (one per address, and the call), `failure`
//! (what became of a call that brought no answer).

mod failure;
mod options;
mod pool;

pub use failure::CallFailure;
pub use options::{Options, Ping};
pub use pool::Executors;
