//! Encodes values of the core and the store as messages.

mod event;
mod request;
mod spec;
mod view;

pub use event::{Occasion, dispatch_event, dispatches, notice_event};
pub use request::{Attempt, REQUEST_BYTES, execute_request};
pub(crate) use spec::json_or_empty;
pub use spec::{edit, graph, node, workflow_options};
pub use view::{Results, executor, log_entry, node_view, workflow_view};
