//! Runs many seeds on the given number of threads; the verdict does not depend on that number.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::run::{SimOutcome, run};
use crate::tally::SimCounts;
use crate::trace::TraceRecording;

/// Result of many seeds.
#[derive(Debug, Default)]
pub struct SeedsVerdict {
    pub seeds: u64,
    pub counts: SimCounts,
    /// The seed that took longest to become quiet after its last fault, and how long.
    pub slowest: (u64, Duration),
    /// The lowest seed that violated a guarantee.
    pub broken: Option<SimOutcome>,
}

/// Runs `seeds` seeds from `from` on, until one violates a guarantee.
pub fn run_all(from: u64, seeds: u64, threads: usize) -> SeedsVerdict {
    let next = AtomicU64::new(from);
    let lowest_broken = AtomicU64::new(u64::MAX);
    let verdict = Mutex::new(SeedsVerdict::default());
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= from + seeds || seed > lowest_broken.load(Ordering::Relaxed) {
                        return;
                    }
                    let outcome = run(seed, TraceRecording::Nothing);
                    let mut verdict = verdict.lock().unwrap_or_else(PoisonError::into_inner);
                    verdict.seeds += 1;
                    verdict.counts.merge(&outcome.counts);
                    if outcome.settled_in > verdict.slowest.1 {
                        verdict.slowest = (seed, outcome.settled_in);
                    }
                    if !outcome.violations.is_empty() {
                        lowest_broken.fetch_min(seed, Ordering::Relaxed);
                        if verdict.broken.as_ref().is_none_or(|other| seed < other.seed) {
                            verdict.broken = Some(outcome);
                        }
                    }
                }
            });
        }
    });
    verdict.into_inner().unwrap_or_else(PoisonError::into_inner)
}
