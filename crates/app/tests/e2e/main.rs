//! The engine from the outside: the real binary, real processes, HTTP and the command line.
//!
//! Every case is written once and runs in both modes: embedded (one process, SQLite) and as a fleet
//! (Postgres, Redis, an ingress and workers). [`both_modes`] expands a case into
//! `<theme>::embedded::<case>` and `<theme>::fleet::<case>`. Cases about a service that only a fleet
//! has, or in which others must take over, are plain tests in `outages` and `storms`.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a panic is how a test says that it failed, also in the functions around it"
)]

#[macro_use]
mod both_modes;

mod api;
mod definitions;
mod dying;
mod world;

mod actions;
mod batches;
mod benching;
mod benching_program;
mod benching_work;
mod cancelling;
mod children;
mod commands;
mod compensating;
mod crashes;
mod deciding;
mod deciding_by_command;
mod devices_by_command;
mod emitting;
mod errors;
mod full_disk;
mod http_answers;
mod idempotency;
mod incidents;
mod load;
mod malformed;
mod outages;
mod outbound_events;
mod people_by_command;
mod reading;
mod replaying;
mod retrying;
mod reviewing;
mod secrets;
mod shutdown;
mod signals;
mod starter;
mod starting;
mod storms;
mod tailing;
mod tasks;
mod tenants;
mod timers;
mod tls;
mod unusable;
mod upgrading;
mod waiting;
mod waiting_for;
mod webhooks;
