//! A minimal HTTP/1.1 client for the load generator.

mod address;
mod answer;
mod connection;

pub(crate) use address::ServerAddress;
pub(crate) use answer::{WireAnswer, find_bytes};
pub(crate) use connection::{BenchConnection, TimedCall, short_excerpt};
