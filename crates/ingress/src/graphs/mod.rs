//! Graph service, shared by HTTP and gRPC: the transports translate, this module acts.
//!
//! Only the creation is decided here. An edit is checked against the current graph, so that a caller gets
//! its faults at once; the worker decides in its turn whether to apply it. A result is the outcome of an
//! action, fenced by the action's lease like every other outcome.

pub(crate) mod attempt;
pub(crate) mod cancel;
pub(crate) mod create;
pub(crate) mod current;
mod deps;
pub(crate) mod edit;
mod event_decision;
pub(crate) mod executors;
pub(crate) mod find;
mod known_results;
pub(crate) mod nodes;
mod off_runtime;
pub(crate) mod progress;
pub(crate) mod result;
pub(crate) mod watch;
pub(crate) mod watch_position;

pub(crate) use deps::GraphDeps;
pub(crate) use off_runtime::run_off_runtime;
