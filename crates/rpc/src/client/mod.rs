//! Calling executors.
//!
//! Reading order: `target` (which executor), `connector` (which of its addresses are allowed), `tls` (on
//! top of it), `options` (connection settings), `pool` (one connection per executor, and the call),
//! `failure` (classification of failed calls, and the message for the tenant).

mod connector;
mod failure;
mod options;
mod pool;
mod target;
mod tls;

pub use connector::ExecutorNetwork;
pub use failure::CallFailure;
pub use options::{ExecutorClientOptions, Http2Ping};
pub use pool::ExecutorClients;
pub use target::{ExecutorOrigin, ExecutorTarget};
