//! The conformance suite of streams: one sentence per case, listed once, run by both backends.
//!
//! A backend's test file says `millstream_stream_conformance::stream_conformance_tests!(fresh_bench().await);` where the
//! expression yields a [`StreamFixture`] on a fresh and empty stream; it is evaluated once per case. Each case
//! becomes a separate test. A backend that is unreachable panics in that expression: a missing backend is a
//! failure, never a skip.
//!
//! Time is real, because a server has its own clock. Cases wait for observable effects, and the absence of an
//! effect is compared with the presence of another one.
//!
//! Refuses: inspecting the backend behind the traits.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "test code that other crates link to")]

mod fixture;

pub mod announcements;
pub mod fairness;
pub mod lock;
pub mod lock_rounds;
pub mod maintenance;
pub mod pending;
pub mod publish;
pub mod reclaim;

#[macro_use]
mod list;

pub use fixture::StreamFixture;
