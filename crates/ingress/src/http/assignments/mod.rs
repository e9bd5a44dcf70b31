//! Assignments over HTTP: people request work, do it, and submit the answer.

pub(super) mod acts;
pub(super) mod next;
pub(super) mod operate;
pub(super) mod read;
pub(in crate::http) mod views;
