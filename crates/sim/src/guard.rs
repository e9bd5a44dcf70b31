//! Reference model of locks and leases: every operation on them is compared with it as it happens.
//!
//! The guards record what the services grant, and report what the services wrongly accept: a lock released or
//! extended by a process that does not hold it, a lease used after it has passed on.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use millstream_core::id::{ActionKey, ExecutionKey};
use millstream_store::action_store::{Lease, LeasedAction};
use millstream_stream::locks::LockToken;
use tokio::time::Instant;

use crate::check::{Check, Violation};

#[derive(Debug, Default)]
pub(crate) struct LockGuard(Mutex<BTreeMap<ExecutionKey, Holding>>);

#[derive(Debug, Clone)]
pub(crate) struct Holding {
    pub(crate) token: LockToken,
    pub(crate) until: Instant,
}

impl LockGuard {
    fn held(&self) -> MutexGuard<'_, BTreeMap<ExecutionKey, Holding>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The present holder.
    pub(crate) fn holder(&self, key: &ExecutionKey) -> Option<Holding> {
        self.held().get(key).filter(|holding| holding.until > Instant::now()).cloned()
    }

    pub(crate) fn is_held_by(&self, key: &ExecutionKey, token: &LockToken) -> bool {
        self.holder(key).is_some_and(|holding| holding.token == *token)
    }

    /// Records that the service granted the lock to `token`.
    pub(crate) fn granted(
        &self,
        key: &ExecutionKey,
        token: &LockToken,
        ttl: Duration,
    ) -> Result<(), Violation> {
        let before = self.holder(key);
        self.held().insert(key.clone(), Holding { token: token.clone(), until: Instant::now() + ttl });
        match before {
            Some(holder) if holder.token != *token => Err(Violation::new(
                Check::Lock,
                key.execution.as_str(),
                format!("granted to {} while {} holds it", token.0, holder.token.0),
            )),
            Some(_) | None => Ok(()),
        }
    }

    pub(crate) fn released(&self, key: &ExecutionKey) {
        self.held().remove(key);
    }

    pub(crate) fn forget_everything(&self) {
        self.held().clear();
    }

    /// Number of held locks.
    pub(crate) fn count(&self) -> usize {
        let now = Instant::now();
        self.held().values().filter(|holding| holding.until > now).count()
    }
}

#[derive(Debug, Default)]
pub(crate) struct LeaseGuard(Mutex<BTreeMap<ActionKey, Granted>>);

#[derive(Debug, Clone, Copy)]
struct Granted {
    epoch: i64,
    /// By the holder's clock: lease length after the request.
    deadline: Instant,
}

/// Relation of a lease to the newest one on its action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Newest,
    PassedOn,
}

impl LeaseGuard {
    fn grants(&self) -> MutexGuard<'_, BTreeMap<ActionKey, Granted>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of these that had another holder before.
    pub(crate) fn granted(
        &self,
        leased: &[LeasedAction],
        asked: Instant,
        ttl: Duration,
    ) -> Result<usize, Violation> {
        let mut grants = self.grants();
        let (mut taken_over, mut wrong) = (0, None);
        for LeasedAction { lease, .. } in leased {
            let grant = Granted { epoch: lease.epoch.0, deadline: asked + ttl };
            if let Some(before) = grants.insert(lease.key.clone(), grant) {
                taken_over += 1;
                if before.epoch >= lease.epoch.0 {
                    let what = format!("{}: epoch {} after {}", lease.key, lease.epoch.0, before.epoch);
                    wrong = Some(Violation::new(Check::Lease, lease.key.execution.execution.as_str(), what));
                }
            }
        }
        wrong.map_or(Ok(taken_over), Err)
    }

    pub(crate) fn standing(&self, lease: &Lease) -> Standing {
        match self.grants().get(&lease.key) {
            Some(newest) if newest.epoch > lease.epoch.0 => Standing::PassedOn,
            Some(_) | None => Standing::Newest,
        }
    }

    pub(crate) fn renewed(&self, lease: &Lease, asked: Instant, ttl: Duration) {
        if let Some(grant) = self.grants().get_mut(&lease.key).filter(|grant| grant.epoch == lease.epoch.0) {
            grant.deadline = asked + ttl;
        }
    }

    /// An operation was accepted under this lease.
    pub(crate) fn accepted(&self, act: &str, lease: &Lease) -> Result<(), Violation> {
        match self.standing(lease) {
            Standing::Newest => Ok(()),
            Standing::PassedOn => {
                let what =
                    format!("{act} of {} under epoch {}, which has passed on", lease.key, lease.epoch.0);
                Err(Violation::new(Check::Lease, lease.key.execution.execution.as_str(), what))
            }
        }
    }

    /// Whether the holder of this lease may begin now, by its own clock.
    pub(crate) fn may_begin(&self, key: &str, epoch: i64) -> bool {
        let grants = self.grants();
        let grant = grants.iter().find(|(action, _)| action.to_string() == key).map(|(_, grant)| *grant);
        // A lease that has passed on has no deadline here; the sink refuses its token.
        grant.is_none_or(|grant| grant.epoch != epoch || Instant::now() < grant.deadline)
    }
}
