//! The clock that the client and the service share.

use nix::time::{ClockId, clock_gettime};

/// Microseconds of CLOCK_MONOTONIC, which is the same for all processes of one machine.
pub fn now_us() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("Linux has this clock");
    now.tv_sec() as u64 * 1_000_000 + now.tv_nsec() as u64 / 1_000
}
