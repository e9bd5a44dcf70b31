//! Queues of people's work over HTTP: configuration, import and statistics.

pub(super) mod configure;
pub(super) mod import;
pub(super) mod stats;
