//! HTTP/1.1 by hand, as little of it as a load generator needs.

mod address;
mod answer;
mod connection;

pub(crate) use address::Address;
pub(crate) use answer::{Answer, find};
pub(crate) use connection::{Called, Connection, excerpt};
