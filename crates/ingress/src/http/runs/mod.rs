//! Runs over HTTP: created, looked at, acted upon by devices, and decided about by people.

pub(crate) mod acts;
pub(super) mod create;
pub(super) mod operate;
pub(super) mod read;
mod views;
pub(super) mod why;
