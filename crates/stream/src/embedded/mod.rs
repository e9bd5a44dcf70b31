//! The backend for one process: the semantics of the Redis one, in memory.
//!
//! Nothing survives the process, so every start is a new generation and the worker's sweep rings what
//! is undecided. Time is tokio's, so that tests can hold it.
//!
//! Memory is bounded by what is there to do: a bell that already waits unread is not queued again, and
//! a lane keeps at most [`LANE_CAPACITY`] of them.

mod announce;
mod doorbells;
mod lane;
mod locks;
mod stream;

pub use lane::LANE_CAPACITY;
pub use stream::EmbeddedStream;
