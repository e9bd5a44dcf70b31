//! The HTTP contract, row by row, over the memory store and the embedded stream.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod auth;
mod backend_failures;
mod batch;
mod bench;
mod definitions;
mod drain;
mod edge_bytes;
#[path = "../graphs/engine.rs"]
#[allow(dead_code, reason = "the tests of graphs use the rest")]
mod engine;
mod event_waits;
mod events;
mod executions;
mod failed_actions;
mod faulty_backends;
mod group_commit;
mod group_resolutions;
mod hostile_input;
mod incidents;
mod interventions;
mod keys;
mod lists;
mod metric_series;
mod openapi;
mod performer_views;
mod problems;
mod quotas;
mod repeats;
mod resolutions;
mod roles;
mod roles_data;
mod roles_grpc;
mod roles_http;
mod row_quotas;
mod schema;
mod signals;
mod slow;
mod sockets;
mod start_bounds;
mod tail;
mod tasks;
mod undelivered_leases;
mod unread_answers;
mod wire;
