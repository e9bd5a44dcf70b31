//! Queues of people's work over HTTP: how they treat items and people, what comes into them, and how they are doing.

pub(super) mod configure;
pub(super) mod import;
pub(super) mod stats;
