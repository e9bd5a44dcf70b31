//! The worker on the reference store and the embedded stream, seen from outside.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests")]

#[path = "worker/bench.rs"]
mod bench;
#[path = "worker/crowded.rs"]
mod crowded;
#[path = "worker/deciding.rs"]
mod deciding;
#[path = "worker/devices.rs"]
mod devices;
#[path = "worker/draining.rs"]
mod draining;
#[path = "worker/executor_addresses.rs"]
mod executor_addresses;
#[path = "worker/faults.rs"]
mod faults;
#[path = "worker/faulty.rs"]
mod faulty;
#[path = "worker/foreign.rs"]
mod foreign;
#[path = "worker/graphs.rs"]
mod graphs;
#[path = "worker/http.rs"]
mod http;
#[path = "worker/listener.rs"]
mod listener;
#[path = "worker/notices.rs"]
mod notices;
#[path = "worker/outbound.rs"]
mod outbound;
#[path = "worker/people.rs"]
mod people;
#[path = "worker/performing.rs"]
mod performing;
#[path = "worker/poison.rs"]
mod poison;
#[path = "worker/quotas.rs"]
mod quotas;
#[path = "worker/repairs.rs"]
mod repairs;
#[path = "worker/replaying.rs"]
mod replaying;
#[path = "worker/timers.rs"]
mod timers;
#[path = "worker/webhooks.rs"]
mod webhooks;
