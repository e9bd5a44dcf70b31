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

mod cancel;
mod connection_floods;
mod create;
mod create_bad;
mod edits;
mod engine;
mod executions;
mod executors;
mod graph_quota_caps;
mod grpc_auth;
mod grpc_bad_workflows;
mod grpc_client;
mod grpc_create;
mod grpc_tasks;
mod grpc_updates;
mod grpc_watch;
mod health;
mod http_versions;
mod key_revocation;
mod nodes;
mod reports;
mod roles;
mod shapes;
mod tls;
mod watch;
