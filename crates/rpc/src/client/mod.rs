//! Calling executors.
//!
//! Reading order: `target` (which executor), `connector` (which of its addresses may be dialled), `options` (how
//! connections are kept), `pool` (one per executor, and the call), `failure` (what became of a call that brought no
//! answer, and what of it a tenant sees).

mod connector;
mod failure;
mod options;
mod pool;
mod target;

pub use connector::ExecutorNetwork;
pub use failure::CallFailure;
pub use options::{Options, Ping};
pub use pool::Executors;
pub use target::{ExecutorOrigin, ExecutorTarget};
