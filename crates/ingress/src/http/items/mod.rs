//! Items of people's work over HTTP: read, list, withdraw.

pub(super) mod read;
pub(in crate::http) mod views;
pub(super) mod withdraw;
