//! Reference model of locks and leases: every operation on them is compared with it as it happens.
//!
//! The guards record what the services grant, and report what the services wrongly accept: a lock released or
//! extended by a process that does not hold it, a lease used after it has passed on.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use millstream_model::id::{ActionKey, ExecutionKey};
use millstream_store::action_store::{Lease, LeasedAction};
use millstream_stream::locks::LockToken;
use tokio::time::Instant;

use crate::check::{SimCheck, SimViolation};

#[derive(Debug, Default)]
pub(crate) struct LockGuard(Mutex<BTreeMap<ExecutionKey, LockHolding>>);

#[derive(Debug, Clone)]
pub(crate) struct LockHolding {
    pub(crate) token: LockToken,
    pub(crate) until: Instant,
}

impl LockGuard {
    fn held_locks(&self) -> MutexGuard<'_, BTreeMap<ExecutionKey, LockHolding>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The present holder.
    pub(crate) fn lock_holder(&self, key: &ExecutionKey) -> Option<LockHolding> {
        self.held_locks().get(key).filter(|holding| holding.until > Instant::now()).cloned()
    }

    pub(crate) fn is_held_by(&self, key: &ExecutionKey, token: &LockToken) -> bool {
        self.lock_holder(key).is_some_and(|holding| holding.token == *token)
    }

    /// Records that the service granted the lock to `token`.
    pub(crate) fn record_grant(
        &self,
        key: &ExecutionKey,
        token: &LockToken,
        ttl: Duration,
    ) -> Result<(), SimViolation> {
        let before = self.lock_holder(key);
        self.held_locks()
            .insert(key.clone(), LockHolding { token: token.clone(), until: Instant::now() + ttl });
        match before {
            Some(holder) if holder.token != *token => Err(SimViolation::new(
                SimCheck::Lock,
                key.execution.as_str(),
                format!("granted to {} while {} holds it", token.0, holder.token.0),
            )),
            Some(_) | None => Ok(()),
        }
    }

    pub(crate) fn record_release(&self, key: &ExecutionKey) {
        self.held_locks().remove(key);
    }

    pub(crate) fn forget_everything(&self) {
        self.held_locks().clear();
    }

    /// Number of held locks.
    pub(crate) fn held_count(&self) -> usize {
        let now = Instant::now();
        self.held_locks().values().filter(|holding| holding.until > now).count()
    }
}

#[derive(Debug, Default)]
pub(crate) struct LeaseGuard(Mutex<BTreeMap<ActionKey, GrantedLease>>);

#[derive(Debug, Clone, Copy)]
struct GrantedLease {
    epoch: i64,
    /// By the holder's clock: lease length after the request.
    deadline: Instant,
}

/// Relation of a lease to the newest one on its action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaseStanding {
    Newest,
    PassedOn,
}

impl LeaseGuard {
    fn granted_leases(&self) -> MutexGuard<'_, BTreeMap<ActionKey, GrantedLease>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of these that had another holder before.
    pub(crate) fn record_grant(
        &self,
        leased: &[LeasedAction],
        asked: Instant,
        ttl: Duration,
    ) -> Result<usize, SimViolation> {
        let mut grants = self.granted_leases();
        let (mut taken_over, mut wrong) = (0, None);
        for LeasedAction { lease, .. } in leased {
            let grant = GrantedLease { epoch: lease.epoch.0, deadline: asked + ttl };
            if let Some(before) = grants.insert(lease.key.clone(), grant) {
                taken_over += 1;
                if before.epoch >= lease.epoch.0 {
                    let what = format!("{}: epoch {} after {}", lease.key, lease.epoch.0, before.epoch);
                    wrong = Some(SimViolation::new(
                        SimCheck::Lease,
                        lease.key.execution.execution.as_str(),
                        what,
                    ));
                }
            }
        }
        wrong.map_or(Ok(taken_over), Err)
    }

    pub(crate) fn lease_standing(&self, lease: &Lease) -> LeaseStanding {
        match self.granted_leases().get(&lease.key) {
            Some(newest) if newest.epoch > lease.epoch.0 => LeaseStanding::PassedOn,
            Some(_) | None => LeaseStanding::Newest,
        }
    }

    pub(crate) fn record_renewal(&self, lease: &Lease, asked: Instant, ttl: Duration) {
        if let Some(grant) =
            self.granted_leases().get_mut(&lease.key).filter(|grant| grant.epoch == lease.epoch.0)
        {
            grant.deadline = asked + ttl;
        }
    }

    /// An operation was accepted under this lease.
    pub(crate) fn check_accepted(&self, act: &str, lease: &Lease) -> Result<(), SimViolation> {
        match self.lease_standing(lease) {
            LeaseStanding::Newest => Ok(()),
            LeaseStanding::PassedOn => {
                let what =
                    format!("{act} of {} under epoch {}, which has passed on", lease.key, lease.epoch.0);
                Err(SimViolation::new(SimCheck::Lease, lease.key.execution.execution.as_str(), what))
            }
        }
    }

    /// Whether the holder of this lease may begin now, by its own clock.
    pub(crate) fn may_begin(&self, key: &str, epoch: i64) -> bool {
        let grants = self.granted_leases();
        let grant = grants.iter().find(|(action, _)| action.to_string() == key).map(|(_, grant)| *grant);
        // A lease that has passed on has no deadline here; the sink refuses its token.
        grant.is_none_or(|grant| grant.epoch != epoch || Instant::now() < grant.deadline)
    }
}
