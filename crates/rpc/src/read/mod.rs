//! Decodes messages into values of the core, and reports all their problems at once.
//!
//! Only single fields are checked here: ids, durations, JSON, enums. The core checks whether the graph is
//! consistent, and reports with the same paths.

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
