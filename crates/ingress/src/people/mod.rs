//! Work for people, for every transport: requests for work, answers, and their validation.
//!
//! `people::assignment` decides; this module loads, steps and writes ([`millstream_store::item_service`]), with
//! the requests of many people in one transaction.

pub(crate) mod batcher;
mod environment;
pub(crate) mod importing;
pub(crate) mod item_metrics;
pub(crate) mod next_work;
pub(crate) mod refusals;
pub(crate) mod schema;
pub(crate) mod schema_cache;
mod schema_steps;
