//! Injects faults into a private fleet, and checks that it kept all guarantees.
//!
//! A run starts Postgres, Redis, ingresses and workers as real processes behind proxies, drives a recorded
//! load against them, injects faults from a seeded schedule, stops, waits for quiet, and compares the
//! observations of clients and an HTTP target with the database. The same seed gives the same faults in the
//! same order and the same choices of the clients; the behaviour of real processes in between is not
//! reproducible (the simulator covers that).
//!
//! Reading order: faults ([`fault_kind`], [`deck`]), the environment ([`stage`]), the load ([`load`], [`sink`]),
//! injection ([`faults`], [`drill`]), and guarantees ([`quiet`], [`history`], [`check`], [`report`]). Device
//! runs have a torture of their own in [`devices`], fairness between tenants in [`neighbours`].
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "the whole crate is test support: a panic is how a run says that it could not be held"
)]

pub mod chance;
pub mod check;
pub mod deck;
pub mod devices;
pub mod drill;
pub mod fault_kind;
pub mod faults;
pub mod history;
pub mod load;
pub mod neighbours;
pub mod options;
pub mod quiet;
pub mod report;
pub mod run;
pub mod sink;
pub mod stage;
