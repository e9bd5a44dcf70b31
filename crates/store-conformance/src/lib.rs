//! The conformance suite that every store must pass: one sentence per case, listed once, run by all backends.
//!
//! A backend's `tests/conformance.rs` says `millstream_store_conformance::conformance_tests!(fresh_bench().await);` where
//! the expression yields a [`ConformanceBench`] on a fresh and empty store; it is evaluated once per case. Each case
//! becomes a test of its own. A backend that cannot be reached panics in that expression: a missing backend
//! is a failure, never a skip.
//!
//! Time: PostgreSQL judges leases and due times by its own clock and the others by the `now` parameter, so
//! cases take `now` from the store ([`ConformanceBench::now`]), write due times that have passed or are far away, and
//! wait for short leases to expire ([`ConformanceBench::passed`]).
//!
//! Refuses: tests behind the traits. Behaviour that is invisible through them is not part of the contract.

#![expect(
    clippy::cloned_ref_to_slice_refs,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "test code that other crates link to"
)]

mod case_store;
mod commit_builder;
mod device_fixture;
mod fixture;
mod graph;
mod people;

pub mod append;
pub mod append_repeats;
pub mod commit;
pub mod commit_actions;
pub mod definitions;
pub mod devices;
pub mod event_views;
pub mod execution_views;
pub mod executors;
pub mod graph_dispatch;
pub mod graph_feed;
pub mod graph_logs;
pub mod graph_views;
pub mod graphs;
pub mod incidents;
pub mod independent;
pub mod interventions;
pub mod keys;
pub mod lease;
pub mod load;
pub mod mailbox;
pub mod notices;
pub mod outbox;
pub mod people_items;
pub mod people_next;
pub mod people_queues;
pub mod people_races;
pub mod people_views;
pub mod queues;
pub mod quotas;
pub mod relations;
pub mod retention;
pub mod run_beats;
pub mod run_ends;
pub mod run_races;
pub mod run_views;
pub mod runs;
pub mod schedules;
pub mod settle;
pub mod settle_races;
pub mod timers;
pub mod undo;
pub mod work_races;
pub mod workers;

#[macro_use]
mod expand;
#[macro_use]
mod list;

pub use case_store::ConformanceBench;
