//! What tests need from the outside world: private services, fleets of real processes, HTTP targets.
//!
//! Everything here is owned by the test that requested it and is removed with it, also when the test process
//! is killed: see [`guard`]. A missing service is a failure with an install hint, never a skip. Nothing here
//! is linked into the product.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "the whole crate is test support: a panic is how a test says that it failed"
)]

pub mod captured_log;
pub mod certificates;
pub mod client;
pub mod daemon;
pub mod dice;
pub mod eventually;
pub mod fleet;
pub mod guard;
pub mod pooler;
pub mod port;
pub mod postgres;
pub mod proxy;
pub mod redis;
pub mod sink;
pub mod sqlite;
pub mod tail;

pub use certificates::{TestCa, TestCertificate};
pub use client::{TestClient, TestReply};
pub use eventually::eventually;
pub use fleet::{FleetMode, TestFleet};
pub use proxy::TestProxy;
pub use sink::TestSink;
pub use tail::TestTail;
