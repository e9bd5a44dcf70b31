//! Locks on executions for the length of a visit.
//!
//! A lock only saves work: the fence is the expected seq of the commit. Without the lock service a visit
//! continues without locks, and losing one changes nothing.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};

use millstream_model::id::ExecutionKey;
use millstream_stream::locks::LockToken;

use super::inbox::{MailboxVisit, RetryReason, VisitOutcome};
use crate::environment::WorkerEnvironment;
use crate::metrics;
use crate::outage::OutageLog;

#[derive(Debug)]
pub(crate) struct VisitLocks {
    visits: AtomicU64,
    outage: OutageLog,
}

/// The locks of a visit.
#[derive(Debug)]
pub(crate) struct HeldVisitLocks {
    keys: Vec<ExecutionKey>,
    token: LockToken,
}

impl Default for VisitLocks {
    fn default() -> Self {
        Self { visits: AtomicU64::new(0), outage: OutageLog::of_service("the lock service") }
    }
}

impl VisitLocks {
    /// Locks the open visits; busy ones are kept. `None` when there is no lock to release.
    pub(crate) async fn lock_executions(
        &self,
        env: &WorkerEnvironment,
        visits: &[MailboxVisit],
        ends: &mut [Option<VisitOutcome>],
    ) -> Option<LockToken> {
        let open: Vec<usize> = (0..visits.len()).filter(|at| ends[*at].is_none()).collect();
        if open.is_empty() {
            return None;
        }
        let keys: Vec<ExecutionKey> = open.iter().map(|at| visits[*at].execution.clone()).collect();
        let token = self.new_token(env);
        match env.streams.locks.acquire_locks(&keys, &token, env.options.lock_ttl).await {
            Ok(granted) => {
                self.outage.record_success();
                for (at, _) in open.into_iter().zip(granted).filter(|(_, granted)| !granted) {
                    ::metrics::counter!(metrics::LOCK_BUSY).increment(1);
                    ends[at] = Some(VisitOutcome::Kept(RetryReason::Busy));
                }
                Some(token)
            }
            Err(error) => {
                self.outage.record_failure(&error);
                // Some may have been locked before the failure: they are released like any others.
                Some(token)
            }
        }
    }

    /// Unique per visit: the worker's id is unique per start.
    fn new_token(&self, env: &WorkerEnvironment) -> LockToken {
        LockToken(format!("{}/{}", env.options.worker, self.visits.fetch_add(1, Ordering::Relaxed)))
    }
}

impl HeldVisitLocks {
    /// `keys` are the executions that the visit goes on with.
    pub(crate) fn new(keys: Vec<ExecutionKey>, token: LockToken) -> Self {
        Self { keys, token }
    }

    /// Runs `work` and extends the locks meanwhile.
    pub(crate) async fn while_held<T>(&self, env: &WorkerEnvironment, work: impl Future<Output = T>) -> T {
        tokio::select! {
            biased;
            done = work => done,
            never = self.extend_locks(env) => match never {},
        }
    }

    async fn extend_locks(&self, env: &WorkerEnvironment) -> Infallible {
        loop {
            tokio::time::sleep(env.options.lock_ttl / 3).await;
            let _ = env.streams.locks.extend_locks(&self.keys, &self.token, env.options.lock_ttl).await;
        }
    }

    /// A lock that cannot be released expires by itself.
    pub(crate) async fn release(&self, env: &WorkerEnvironment) {
        let _ = env.streams.locks.release_locks(&self.keys, &self.token).await;
    }
}
