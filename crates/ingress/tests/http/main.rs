//! The HTTP contract, row by row, over the memory store and the embedded stream.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod auth;
mod batch;
mod bench;
mod definitions;
mod drain;
mod edge_bytes;
#[path = "../graphs/engine.rs"]
#[allow(dead_code, reason = "the tests of graphs use the rest")]
mod engine;
mod events;
mod executions;
mod failures;
mod faulty;
mod group_resolutions;
mod groups;
mod hostile;
mod incidents;
mod interventions;
mod keys;
mod lists;
mod openapi;
mod performers;
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
mod scraping;
mod signals;
mod slow;
mod sockets;
mod start_bounds;
mod tail;
mod tasks;
mod trouble;
mod undelivered;
mod unread;
mod waiting;
mod wire;
