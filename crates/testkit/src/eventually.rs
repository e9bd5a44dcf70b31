//! Waiting for a condition with a deadline: the one place in all tests that sleeps.
//!
//! It refuses to wait for time itself. A test names what it is waiting for, and fails with the last
//! thing it saw.

use std::fmt::Debug;
use std::time::{Duration, Instant};

/// Long enough for a loaded two-core machine; a test that passes needs a fraction of it.
pub const PATIENCE: Duration = Duration::from_secs(30);

const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Polls `probe` until it returns `Ok`; panics with its last `Err` once `deadline` has passed.
pub async fn eventually<T, E, F>(deadline: Duration, mut probe: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, E>>,
    E: Debug,
{
    let started = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        match probe().await {
            Ok(value) => return value,
            Err(seen) if started.elapsed() >= deadline => {
                panic!("condition not met within {deadline:?}, last seen: {seen:#?}")
            }
            Err(_) => tokio::time::sleep(pause).await,
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// The same without a runtime, for example in a destructor; returns whether the condition became true.
pub fn eventually_blocking(deadline: Duration, mut probe: impl FnMut() -> ProbeResult) -> ProbeResult {
    let started = Instant::now();
    loop {
        match probe() {
            ProbeResult::True => return ProbeResult::True,
            ProbeResult::NotYet if started.elapsed() >= deadline => return ProbeResult::NotYet,
            ProbeResult::NotYet => std::thread::sleep(FIRST_PAUSE * 2),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeResult {
    True,
    NotYet,
}
