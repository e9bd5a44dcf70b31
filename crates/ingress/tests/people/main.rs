//! Work for people over HTTP, on the memory store and the embedded stream.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../http/bench.rs"]
#[allow(dead_code, reason = "the HTTP tests use the rest")]
mod bench;
#[path = "../http/schema.rs"]
mod schema;

mod action_settlement;
mod answers;
mod bad_input;
mod item_import;
mod lists;
mod next_assignment;
mod operator_actions;
mod people_fixture;
mod queues;
mod repeats;
mod roles;
mod shapes;
mod stats;
