//! Encodes values of the pure crates and the store as messages.

mod event;
mod request;
mod view;

pub use crate::spec_messages::{encode_edit, encode_graph_spec, encode_node_spec, encode_workflow_options};
pub use event::{WorkflowEventHead, decode_dispatches, dispatch_event, notice_event};
pub use request::{AttemptCall, REQUEST_BYTES, execute_request};
pub use view::{NodeResultForm, encode_executor, log_entry, node_view, workflow_view};
