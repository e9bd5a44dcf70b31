//! What the core and the store know, as messages.

mod spec;

pub(crate) use spec::json_or_empty;
pub use spec::{edit, graph, node, workflow_options};
