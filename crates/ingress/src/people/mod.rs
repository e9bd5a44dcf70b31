//! Work for people, for every transport: requests for work, answers, and their validation.
//!
//! `core::assignment` decides; this module loads, steps and writes ([`millstream_store::tending`]), with
//! the requests of many people in one transaction.

pub(crate) mod counted;
pub(crate) mod desk;
pub(crate) mod giving;
pub(crate) mod importing;
pub(crate) mod judging;
pub(crate) mod lines;
pub(crate) mod refused;
pub(crate) mod schema;
mod schema_steps;
mod shell;
