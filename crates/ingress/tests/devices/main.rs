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

mod act_conflicts;
mod action_settlement;
mod assignments;
mod bad_input;
mod device_fixture;
mod grpc_devices;
mod lists;
mod operator_actions;
mod repeats;
mod roles;
mod roster;
mod run_lifecycle;
mod shapes;
mod stream;
