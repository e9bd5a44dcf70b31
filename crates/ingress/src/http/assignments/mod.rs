//! Assignments over HTTP: people ask for work, do it, and hand it in.

pub(super) mod acts;
pub(super) mod next;
pub(super) mod operate;
pub(super) mod read;
pub(in crate::http) mod views;
