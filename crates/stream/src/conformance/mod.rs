//! The suite that every stream must pass: one sentence per case, listed once, run by both backends.
//!
//! A backend's test file says `millstream_stream::stream_conformance_tests!(fresh_bench().await);` where
//! the expression yields a [`Bench`] on a fresh and empty stream; it is evaluated once per case. Each
//! case becomes a test of its own. A backend that cannot be reached panics in that expression: a
//! missing backend is a failure, never a skip.
//!
//! Time is real here, because a server has its own. Cases wait until something can be seen, and what
//! must *not* happen is compared with something that did.
//!
//! Refuses: looking behind the traits.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "test code that other crates link to")]

mod bench;

pub mod care;
pub mod hear;
pub mod lock;
pub mod lock_rounds;
pub mod pending;
pub mod reclaim;
pub mod ring;
pub mod share;

#[macro_use]
mod list;

pub use bench::Bench;
