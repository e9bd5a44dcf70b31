//! A free TCP port on loopback, below the range that outgoing connections take.

use std::net::{Ipv4Addr, TcpListener};

use crate::error::{BenchError, Result};

const FIRST: u16 = 10_000;
const COUNT: u16 = 22_000;

/// Nobody listens on it now. Somebody may before we do; the child then says so and ends.
pub(crate) fn free() -> Result<u16> {
    for _ in 0..1_000 {
        let [high, low, ..] = uuid::Uuid::new_v4().into_bytes();
        let port = FIRST + u16::from_be_bytes([high, low]) % COUNT;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    Err(BenchError::Wrong(format!("no free port between {FIRST} and {} on loopback", FIRST + COUNT)))
}
