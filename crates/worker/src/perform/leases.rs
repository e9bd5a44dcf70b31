//! The leases that a worker holds, and how it learns that it has lost one.
//!
//! The store decides by epoch. Beside that a holder fences itself: a lease is good until its length has
//! passed on the monotonic clock since *before* it was asked for, whatever any wall clock says.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use millstream_core::id::ActionKey;
use millstream_store::action_store::Lease;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

#[derive(Debug, Default, Clone)]
pub(crate) struct Leases(Arc<Mutex<HashMap<ActionKey, Entry>>>);

#[derive(Debug)]
struct Entry {
    lease: Lease,
    deadline: Instant,
    lost: CancellationToken,
}

/// A lease in use. Forgotten when dropped; that neither releases nor settles it.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) lease: Lease,
    lost: CancellationToken,
    leases: Leases,
}

impl Leases {
    pub(crate) fn hold(&self, lease: Lease, deadline: Instant) -> Held {
        let lost = CancellationToken::new();
        let entry = Entry { lease: lease.clone(), deadline, lost: lost.clone() };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(lease.key.clone(), entry);
        Held { lease, lost, leases: self.clone() }
    }

    /// In order, so that the same leases make the same call.
    pub(crate) fn all(&self) -> Vec<Lease> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<Lease> = entries.values().map(|entry| entry.lease.clone()).collect();
        all.sort_unstable();
        all
    }

    pub(crate) fn renewed(&self, lease: &Lease, deadline: Instant) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = entries.get_mut(&lease.key).filter(|entry| entry.lease == *lease) {
            entry.deadline = deadline;
        }
    }

    pub(crate) fn lost(&self, lease: &Lease) {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = entries.get(&lease.key).filter(|entry| entry.lease == *lease) {
            entry.lost.cancel();
        }
    }
}

impl Held {
    /// The store said that the lease has passed on.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.is_cancelled()
    }

    pub(crate) async fn lost(&self) {
        self.lost.cancelled().await;
    }

    /// Whether an attempt may begin: not lost, and not past its own deadline.
    pub(crate) fn is_good(&self) -> bool {
        let entries = self.leases.0.lock().unwrap_or_else(PoisonError::into_inner);
        !self.is_lost()
            && entries
                .get(&self.lease.key)
                .is_some_and(|entry| entry.lease == self.lease && Instant::now() < entry.deadline)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut entries = self.leases.0.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.get(&self.lease.key).is_some_and(|entry| entry.lease == self.lease) {
            entries.remove(&self.lease.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use millstream_core::id::{Epoch, ExecutionId, ExecutionKey, Name, Seq, TenantId};

    use super::*;

    fn lease(epoch: i64) -> Lease {
        let execution =
            ExecutionKey { tenant: TenantId::default_tenant(), execution: ExecutionId::parse("x").unwrap() };
        let key = ActionKey { execution, seq: Seq(2), action: Name::parse("a").unwrap() };
        Lease { key, epoch: Epoch(epoch) }
    }

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(600)
    }

    #[test]
    fn a_lease_past_its_own_deadline_is_not_good_until_renewed() {
        let leases = Leases::default();
        let held = leases.hold(lease(1), Instant::now());
        assert!(!held.is_good());
        leases.renewed(&lease(1), later());
        assert!(held.is_good());
    }

    #[test]
    fn news_of_an_older_epoch_do_not_touch_a_newer_lease() {
        let leases = Leases::default();
        let old = leases.hold(lease(1), later());
        let new = leases.hold(lease(2), later());
        leases.lost(&lease(1));
        assert!(new.is_good());
        assert!(!old.is_good());
        drop(old);
        assert_eq!(leases.all(), [lease(2)]);
    }
}
