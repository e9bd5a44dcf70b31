//! Calls to executors, and to other peers behind an address.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a panic is how a test says that it failed, also in the functions around it"
)]

mod addresses;
mod answers;
mod deadlines;
mod executor;
mod failures;
mod http2;
mod reflection;
mod tls;
