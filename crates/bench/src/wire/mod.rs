//! A minimal HTTP/1.1 client for the load generator.

mod address;
mod answer;
mod connection;

pub(crate) use address::Address;
pub(crate) use answer::{Answer, find};
pub(crate) use connection::{Called, Connection, excerpt};
