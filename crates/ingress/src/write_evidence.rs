//! Write health of the store, derived from the last commits.
//!
//! A store can answer every read and reject every write (a full disk, prepared statements confused by a
//! pooler). Even the tiny write of a probe may succeed where an event does not fit. Readiness therefore
//! trusts commits first (circuit breaker): after some consecutive failed commits the ingress is not ready
//! until one succeeds, or until the failures are old enough to try a probe. A single failure may be a
//! broken connection: then the probe decides.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use millstream_store::StoreError;
use millstream_store::event_log::Appended;
use tokio::time::Instant;

/// How long failed commits count. Without traffic nothing else would reset them.
const FAILURE_COUNTS: Duration = Duration::from_secs(5);
/// How long a successful commit counts.
const SUCCESS_COUNTS: Duration = Duration::from_secs(1);

/// Consecutive failures that make the store unhealthy.
const FAILURES: u32 = 3;

/// State of the last commits. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct WriteEvidence(Arc<Mutex<Option<LastCommit>>>);

#[derive(Debug, Clone, Copy)]
struct LastCommit {
    /// Consecutive failures.
    failures: u32,
    at: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteOutcome {
    Committed,
    Failed,
}

impl WriteEvidence {
    /// Records the result of an append. An append that wrote nothing, or failed by contention, has no
    /// effect.
    pub(crate) fn record_append(&self, appended: Result<&[Appended], &StoreError>) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let failures = match appended {
            Ok(verdicts) if verdicts.iter().any(|one| matches!(one, Appended::Accepted { .. })) => 0,
            Err(StoreError::Unavailable(_)) => last.map_or(0, |last| last.failures).saturating_add(1),
            Ok(_) | Err(StoreError::Contention(_) | StoreError::Corrupt(_)) => return,
        };
        *last = Some(LastCommit { failures, at: Instant::now() });
    }

    /// The evidence of the last commits, unless it is too old or too weak.
    pub(crate) fn current(&self) -> Option<WriteOutcome> {
        let last = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.and_then(|last| judge_failures(last.failures, last.at.elapsed()))
    }
}

fn judge_failures(failures: u32, age: Duration) -> Option<WriteOutcome> {
    match failures {
        0 => (age < SUCCESS_COUNTS).then_some(WriteOutcome::Committed),
        FAILURES.. => (age < FAILURE_COUNTS).then_some(WriteOutcome::Failed),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_commit_failures_mark_store_unhealthy() {
        let (now, later) = (Duration::from_millis(900), Duration::from_secs(5));
        assert_eq!(
            [0, 1, 2].map(|failures| judge_failures(failures, now)),
            [Some(WriteOutcome::Committed), None, None]
        );
        assert_eq!(judge_failures(FAILURES, now), Some(WriteOutcome::Failed));
        assert_eq!([judge_failures(0, later), judge_failures(FAILURES, later)], [None, None]);
    }
}
