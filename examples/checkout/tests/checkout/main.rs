//! `examples/checkout.yaml` with everybody who works on it, in both modes: a Rust worker, a Python worker,
//! a payment service, a child execution. Real processes, real signals.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a panic is how a test says that it failed, also in the functions around it"
)]

mod moving;
mod ordering;
mod shop;
