//! A free TCP port on loopback, below the ephemeral range.

use std::net::{Ipv4Addr, TcpListener};

use crate::error::{BenchError, BenchResult};

const FIRST: u16 = 10_000;
const COUNT: u16 = 22_000;

/// A port without a listener. Another process may take it before the child does; the child then reports that
/// and ends.
pub(crate) fn free_port() -> BenchResult<u16> {
    for _ in 0..1_000 {
        let [high, low, ..] = uuid::Uuid::new_v4().into_bytes();
        let port = FIRST + u16::from_be_bytes([high, low]) % COUNT;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    Err(BenchError::Wrong(format!("no free port between {FIRST} and {} on loopback", FIRST + COUNT)))
}
