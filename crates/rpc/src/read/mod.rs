//! Messages to what the core knows, with everything that is wrong with them in one go.
//!
//! Only what the words themselves say is checked here: ids, lengths of time, JSON, enums. Whether the graph
//! makes sense is decided by the core, which reports with the same paths.

mod answer;
mod edit;
mod executor;
mod graph;
mod node;
mod options;
mod text;

pub use answer::{Asked, Garbage, Heard, MAX_ERROR_CHARS, response, result};
pub use edit::edits;
pub use executor::executor;
pub use graph::workflow;
pub use node::node;

pub(crate) use node::node_at;
pub(crate) use options::workflow_options;
pub(crate) use text::{Json, Reading};
