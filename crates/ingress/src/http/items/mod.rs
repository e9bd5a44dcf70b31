//! Items of people's work over HTTP: looked at, and withdrawn.

pub(super) mod read;
pub(in crate::http) mod views;
pub(super) mod withdraw;
