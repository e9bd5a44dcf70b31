//! Graphs over HTTP and gRPC, on the memory store and the embedded stream.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../http/bench.rs"]
#[allow(dead_code, reason = "the HTTP tests use the rest")]
mod bench;
#[path = "../http/schema.rs"]
mod schema;
#[path = "../http/wire.rs"]
#[allow(dead_code, reason = "the HTTP tests use the rest")]
mod wire;

mod calls;
mod calls_auth;
mod calls_bad;
mod calls_create;
mod calls_tasks;
mod calls_update;
mod calls_watch;
mod cancel;
mod caps;
mod create;
mod create_bad;
mod crowd;
mod edits;
mod engine;
mod executions;
mod executors;
mod health;
mod nodes;
mod port;
mod reports;
mod revoked;
mod roles;
mod shapes;
mod tls;
mod watch;
