//! The in-memory backend for a single process, with the semantics of the Redis backend.
//!
//! Nothing survives the process, so every start is a new generation and the worker's sweep publishes all
//! undecided executions. Time is tokio's, so tests can control it.
//!
//! Memory is bounded by outstanding work: a doorbell that already waits unread is not queued again, and a
//! lane keeps at most [`LANE_CAPACITY`] of them.

mod announce;
mod doorbells;
mod lane;
mod locks;
mod stream;

pub use lane::LANE_CAPACITY;
pub use stream::EmbeddedStream;
