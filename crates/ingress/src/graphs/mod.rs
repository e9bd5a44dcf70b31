//! Graphs at the door, whatever the transport: HTTP and gRPC translate, what happens is in here.
//!
//! Nothing is decided here but creation. An edit is checked against the graph as it stands, so that a caller
//! is told at once what is wrong with it; whether it is applied is decided when its turn comes. A result is
//! an outcome of an action, fenced by the action's lease like every other.

pub(crate) mod attempt;
pub(crate) mod cancel;
pub(crate) mod create;
pub(crate) mod current;
pub(crate) mod edit;
pub(crate) mod executors;
pub(crate) mod find;
mod heavy;
mod known;
pub(crate) mod nodes;
mod outcome;
pub(crate) mod place;
pub(crate) mod progress;
pub(crate) mod result;
pub(crate) mod watch;

pub(crate) use heavy::heavy;
