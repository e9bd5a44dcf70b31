//! Decodes messages into values of the pure crates, and reports all their problems at once.
//!
//! Only single fields are checked here: ids, durations, JSON, enums. `workflow` checks whether the graph is
//! consistent, and reports with the same paths.

mod answer;
mod edit;
mod executor;
mod graph;
mod node;
mod options;
mod text;

pub use answer::{InvalidNodeAnswer, MAX_ERROR_CHARS, NodeAnswer, NodeQuestion, read_response, read_result};
pub use edit::read_edits;
pub use executor::read_executor;
pub use graph::read_workflow;
pub use node::read_node;

pub(crate) use node::node_at;
pub(crate) use options::read_workflow_options;
pub(crate) use text::{JsonOrigin, MessageReader};
