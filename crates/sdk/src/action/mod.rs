//! Actions in Rust: what one is given, how it fails, and how the engine calls it.
//!
//! Reading order: [`context`] (what an attempt knows and can say), [`error`] (what the author decides), [`outcome`]
//! (that decision in the engine's words), [`erased`] (from a typed function to JSON in and out), [`registry`] (all
//! actions of a worker by name).

mod context;
mod erased;
mod error;
mod outcome;
mod registry;

pub use context::ActionContext;
pub(crate) use context::Signs;
pub(crate) use erased::{erase, read_input, write_output};
pub use error::{ActionError, Decide, Decision};
pub(crate) use registry::Registry;
