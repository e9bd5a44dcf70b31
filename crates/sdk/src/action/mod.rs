//! Actions in Rust: their input, their errors, and their call by the engine.
//!
//! Reading order: [`context`] (context of an attempt), [`error`] (the author's decision), [`outcome`] (that
//! decision as the engine's outcome), [`erased`] (from a typed function to JSON in and out), [`registry`]
//! (all actions of a worker by name).

mod context;
mod erased;
mod error;
mod outcome;
mod registry;

pub use context::ActionContext;
pub(crate) use context::HeartbeatSenders;
pub(crate) use erased::{erase_action, read_input, write_output};
pub use error::{ActionError, Decide, FailureDecision};
pub(crate) use registry::ActionRegistry;
