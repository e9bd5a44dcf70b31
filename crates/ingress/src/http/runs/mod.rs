//! Runs over HTTP: created, read, acted upon by devices, and operated by people.

pub(crate) mod acts;
pub(super) mod create;
pub(super) mod operate;
pub(super) mod read;
pub(super) mod views;
pub(super) mod why;
pub(super) mod words;
