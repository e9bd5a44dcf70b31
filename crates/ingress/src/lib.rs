//! The HTTP and gRPC ingress of Millstream: accept events, ring doorbells, serve reads.
//!
//! A request that submits events becomes durable in one commit shared with other requests (group commit),
//! and is answered after that commit. Doorbells are rung afterwards; an unavailable stream costs time and
//! loses nothing. Everything else here reads.
//!
//! Refuses: knowing the worker, deciding events (creation excepted: see
//! `docs/decisions/creation-at-the-door.md`), SQL, and reading the environment.
//!
//! Reading order follows a request: [`serve`] (sockets, drain), `connections`, `connection_use` and
//! `connection` (admission and eviction of connections), `transport` and `tls` (the bytes of a connection),
//! `router`, `http` and `grpc` (the routes and services, on the same port), `auth`, `admission` (quotas and
//! places), `submit` (events and starts, checked), `accept` (durable), `ring` (the doorbell), `wait` (callers
//! that wait for the outcome), `tasks` (work for external workers), `graphs`, `devices` and `people` (for every
//! transport).
//!
//! Layers: `http` and `grpc` use `state`, which starts the services and gives each its dependencies. A service
//! uses neither of them: it refuses with a `refusal::RequestRefusal`, which each transport translates.

mod accept;
mod admission;
mod answer_body;
mod auth;
mod body_budget;
mod clock;
mod coalescer;
mod connection;
mod connection_use;
mod connections;
mod crash;
mod cursor;
mod definition_cache;
mod devices;
mod early_refusal;
#[doc(hidden)]
pub mod fuzzing;
mod gate;
mod graphs;
mod grpc;
mod held_body;
mod http;
mod http_version;
pub mod metrics;
pub mod metrics_page;
pub mod openapi;
pub mod options;
mod people;
pub mod process_metrics;
mod quotas;
mod readiness;
mod refusal;
mod request_hash;
mod ring;
pub mod role_table;
mod router;
pub mod serve;
mod stall_timeout;
mod state;
mod submit;
mod tasks;
mod tls;
mod trace;
mod transport;
mod wait;
mod waiters;
mod write_evidence;

pub use http::FleetKeys;
pub use options::{AuthMode, IngressLimits, IngressOptions};
pub use router::build_router;
pub use serve::{IngressError, run_ingress, run_router};
pub use state::{IngressDeps, IngressLifecycle};
pub use tls::{ServerTls, TlsFiles, TlsFilesError};
pub use transport::{IngressListeners, TlsListener};
