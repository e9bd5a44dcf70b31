//! Tests of PostgreSQL's own risks: lock order, plans, and rows and servers that refuse.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests and their fixtures")]

mod crossings;
mod fences;
mod graphs;
mod lock_order;
mod people;
mod plans;
mod queues;
mod refusals;
mod restarts;
mod retention;
mod runs;
mod sessions;
mod status_words;
mod support;
mod upgrades;
