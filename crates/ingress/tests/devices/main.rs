//! Runs of devices over HTTP and gRPC, on the memory store and the embedded stream.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../http/bench.rs"]
#[allow(dead_code, reason = "the HTTP tests use the rest")]
mod bench;
#[path = "../http/schema.rs"]
mod schema;
#[path = "../http/wire.rs"]
#[allow(dead_code, reason = "the HTTP tests use the rest")]
mod wire;

mod assignments;
mod bad_input;
mod calls;
mod fleet;
mod lists;
mod operating;
mod refusals;
mod repeats;
mod roles;
mod roster;
mod running;
mod settling;
mod shapes;
mod stream;
