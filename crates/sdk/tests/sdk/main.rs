//! The SDK against a real engine in this process, and actions without one.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a panic is how a test says that it failed, also in the functions around it"
)]

mod acting;
mod calling;
mod deciding;
mod devices;
mod fleet;
mod following;
mod graphs;
mod listing;
mod people;
mod queues;
mod refusing;
mod repeating;
mod stub;
mod tasking;
mod tenants;
mod working;
mod world;
