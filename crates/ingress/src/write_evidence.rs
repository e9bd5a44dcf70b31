//! What the last commits say about the store: whether it takes writes.
//!
//! A store can answer every question and refuse every write (a full disk, prepared statements that a pooler mixes up).
//! The tiny write of a probe may even fit where an event does not. So readiness believes the events first: after some
//! commits have failed in a row the door is not ready until one succeeds, or until the failures are old and a probe is
//! worth a try. One failure alone may be a connection that broke: then the probe decides.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use millstream_store::StoreError;
use millstream_store::event_log::Appended;
use tokio::time::Instant;

/// How long failed commits speak for the store. Without traffic nothing else would end it.
const FAILURE_COUNTS: Duration = Duration::from_secs(5);
/// How long a successful one does.
const SUCCESS_COUNTS: Duration = Duration::from_secs(1);

/// How many commits have to fail in a row.
const FAILURES: u32 = 3;

/// What is known of the last commits. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct WriteEvidence(Arc<Mutex<Option<LastCommit>>>);

#[derive(Debug, Clone, Copy)]
struct LastCommit {
    /// Commits that failed since the last one that did not.
    failures: u32,
    at: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteOutcome {
    Committed,
    Failed,
}

impl WriteEvidence {
    /// Notes how an append went. One that wrote nothing, or met contention, says nothing.
    pub(crate) fn note(&self, appended: Result<&[Appended], &StoreError>) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let failures = match appended {
            Ok(verdicts) if verdicts.iter().any(|one| matches!(one, Appended::Accepted { .. })) => 0,
            Err(StoreError::Unavailable(_)) => last.map_or(0, |last| last.failures).saturating_add(1),
            Ok(_) | Err(StoreError::Contention(_) | StoreError::Corrupt(_)) => return,
        };
        *last = Some(LastCommit { failures, at: Instant::now() });
    }

    /// What the last commits say, if they are not too old or too few.
    pub(crate) fn current(&self) -> Option<WriteOutcome> {
        let last = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.and_then(|last| judge(last.failures, last.at.elapsed()))
    }
}

fn judge(failures: u32, age: Duration) -> Option<WriteOutcome> {
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
    fn failures_in_a_row_count_for_a_while_and_one_alone_does_not() {
        let (now, later) = (Duration::from_millis(900), Duration::from_secs(5));
        assert_eq!(
            [0, 1, 2].map(|failures| judge(failures, now)),
            [Some(WriteOutcome::Committed), None, None]
        );
        assert_eq!(judge(FAILURES, now), Some(WriteOutcome::Failed));
        assert_eq!([judge(0, later), judge(FAILURES, later)], [None, None]);
    }
}
