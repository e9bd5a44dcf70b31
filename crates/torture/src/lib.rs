//! Tries to break a private fleet, and checks that nothing it promised was broken.
//!
//! A run starts Postgres, Redis, ingresses and workers as real processes behind proxies, drives a recorded
//! load against them, injects faults from a seeded schedule, stops, waits for quiet, and compares what
//! clients and an HTTP target saw with what the database says. The same seed gives the same faults in the
//! same order and the same choices of the clients; what real processes do in between is not repeatable
//! (the simulator is for that).
//!
//! Reading order: what may happen ([`kind`], [`deck`]), where it happens ([`stage`]), what goes on meanwhile
//! ([`load`], [`sink`]), how it is made to happen ([`faults`], [`drill`]), and what must hold afterwards
//! ([`quiet`], [`history`], [`check`], [`report`]). Runs of devices are tortured apart, in [`devices`], and
//! fairness between tenants in [`neighbours`].
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
pub mod faults;
pub mod history;
pub mod kind;
pub mod load;
pub mod neighbours;
pub mod options;
pub mod quiet;
pub mod report;
pub mod run;
pub mod sink;
pub mod stage;
