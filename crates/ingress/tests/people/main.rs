//! Work for people over HTTP, on the memory store and the embedded stream.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../http/bench.rs"]
#[allow(dead_code, reason = "the HTTP tests use the rest")]
mod bench;
#[path = "../http/schema.rs"]
mod schema;

mod answers;
mod bad_input;
mod handing_out;
mod importing;
mod lists;
mod office;
mod operating;
mod queues;
mod repeats;
mod roles;
mod settling;
mod shapes;
mod stats;
