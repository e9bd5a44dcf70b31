//! Free TCP ports on loopback, below the range that outgoing connections take.
//!
//! A service that is stopped and started again must get its port back, so the port must not be one that the
//! kernel assigns to a client in between. Two tests may choose the same port at the same instant: the starter
//! of a service retries with another port.

use std::net::{Ipv4Addr, TcpListener};

const FIRST: u16 = 10_000;
const COUNT: u16 = 22_000;

pub fn free_port() -> u16 {
    for _ in 0..1_000 {
        let bytes = uuid::Uuid::new_v4().into_bytes();
        let port = FIRST + u16::from_be_bytes([bytes[0], bytes[1]]) % COUNT;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!("no free port between {FIRST} and {} on loopback", FIRST + COUNT)
}
