//! Graphs over HTTP: the same operations as the gRPC services, in JSON.

pub(super) mod cancel;
pub(super) mod create;
pub(super) mod edits;
pub(super) mod json;
pub(super) mod nodes;
pub(super) mod read;
pub(super) mod reports;
pub(in crate::http) mod views;
pub(super) mod watch;
