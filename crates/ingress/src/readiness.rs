//! Readiness: whether the process can do its job. The store takes writes, and no shutdown has begun.
//!
//! An unavailable stream is reported and does not make the process unready, because accepting does not need
//! it. Concurrent checks share one result, which is reused for a second.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_store::housekeeping::Housekeeping;
use millstream_stream::doorbell::StreamMaintenance;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::refusal::{RefusalKind, RequestRefusal};
use crate::write_evidence::{WriteEvidence, WriteOutcome};

pub(crate) struct ReadinessProbe {
    pub(crate) draining: CancellationToken,
    /// Outcomes of the last commits.
    pub(crate) writes: WriteEvidence,
    pub(crate) housekeeping: Arc<dyn Housekeeping>,
    pub(crate) care: Arc<dyn StreamMaintenance>,
    pub(crate) last: LastCheck,
}

/// The cached result of the last check.
#[derive(Debug, Default)]
pub(crate) struct LastCheck(Mutex<Option<(ReadinessCheck, Instant)>>);

#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadinessCheck {
    pub(crate) store: DependencyState,
    pub(crate) stream: DependencyState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DependencyState {
    Up,
    Down,
}

/// How long a check's result is reused.
const FRESH: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(2);

impl ReadinessProbe {
    /// Whether the process can do its job.
    pub(crate) async fn check_readiness(&self) -> Result<ReadinessCheck, RequestRefusal> {
        if self.draining.is_cancelled() {
            return Err(RequestRefusal::new(RefusalKind::Draining, "this process is shutting down"));
        }
        if self.writes.current() == Some(WriteOutcome::Failed) {
            return Err(RequestRefusal::new(RefusalKind::StoreUnavailable, "the store does not take writes"));
        }
        let found = self.check_dependencies().await;
        match found.store {
            DependencyState::Up => Ok(found),
            DependencyState::Down => {
                Err(RequestRefusal::new(RefusalKind::StoreUnavailable, "the store does not answer"))
            }
        }
    }

    /// Coalesces concurrent checks: one runs at a time, and the callers that wait share its result.
    async fn check_dependencies(&self) -> ReadinessCheck {
        let mut last = self.last.0.lock().await;
        if let Some((found, at)) = *last
            && at.elapsed() < FRESH
        {
            return found;
        }
        let (store, stream) =
            tokio::join!(self.takes_writes(), tokio::time::timeout(PATIENCE, self.care.check_server()));
        let reach = |answered: bool| if answered { DependencyState::Up } else { DependencyState::Down };
        let found = ReadinessCheck { store: reach(store), stream: reach(matches!(stream, Ok(Ok(_)))) };
        *last = Some((found, Instant::now()));
        found
    }

    /// A recently committed event proves that the store takes writes; otherwise the store is pinged with a
    /// write.
    async fn takes_writes(&self) -> bool {
        match self.writes.current() {
            Some(WriteOutcome::Committed) => true,
            Some(WriteOutcome::Failed) => false,
            None => matches!(tokio::time::timeout(PATIENCE, self.housekeeping.ping()).await, Ok(Ok(_))),
        }
    }
}
