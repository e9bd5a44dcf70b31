//! Queue limits: submissions that wait for a commit or are in one, in total and per tenant.
//!
//! One tenant gets three quarters of the queue at most, in submissions and in bytes: a tenant that floods
//! the queue is refused while others are still accepted. Pure, except for the lock and for [`QueueRoom`],
//! which releases its share on drop.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millstream_model::id::TenantId;

use super::AcceptError;

/// Submissions and bytes in the queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct QueueUse {
    pub(super) submissions: usize,
    pub(super) bytes: usize,
}

impl QueueUse {
    /// With one more submission, if that is within `most`.
    fn with_submission(self, bytes: usize, most: Self) -> Option<Self> {
        let sum = Self { submissions: self.submissions + 1, bytes: self.bytes.saturating_add(bytes) };
        (sum.submissions <= most.submissions && sum.bytes <= most.bytes).then_some(sum)
    }

    fn without_submission(self, bytes: usize) -> Self {
        Self { submissions: self.submissions.saturating_sub(1), bytes: self.bytes.saturating_sub(bytes) }
    }

    /// Three quarters, rounded up.
    fn tenant_share(self) -> Self {
        let share = |all: usize| all - all / 4;
        Self { submissions: share(self.submissions), bytes: share(self.bytes) }
    }
}

/// The use of the queue, in total and per tenant.
#[derive(Debug)]
pub(super) struct QueueShares {
    most: QueueUse,
    all: QueueUse,
    of_tenants: HashMap<TenantId, QueueUse>,
}

impl QueueShares {
    pub(super) fn with_limit(most: QueueUse) -> Self {
        let most = QueueUse { submissions: most.submissions.max(1), bytes: most.bytes.max(1) };
        Self { most, all: QueueUse::default(), of_tenants: HashMap::new() }
    }

    /// Takes room for one submission; returns the bytes to release later. A submission larger than its
    /// tenant's share takes the whole share.
    fn take_room(&mut self, tenant: &TenantId, bytes: usize) -> Result<usize, AcceptError> {
        let share = self.most.tenant_share();
        let bytes = bytes.min(share.bytes);
        let held = self.of_tenants.get(tenant).copied().unwrap_or_default();
        let of_tenant = held.with_submission(bytes, share).ok_or(AcceptError::TenantQueueFull)?;
        let all = self.all.with_submission(bytes, self.most).ok_or(AcceptError::QueueFull)?;
        self.all = all;
        match self.of_tenants.get_mut(tenant) {
            Some(held) => *held = of_tenant,
            None => {
                self.of_tenants.insert(tenant.clone(), of_tenant);
            }
        }
        Ok(bytes)
    }

    fn give_back(&mut self, tenant: &TenantId, bytes: usize) {
        self.all = self.all.without_submission(bytes);
        if let Some(held) = self.of_tenants.get_mut(tenant) {
            *held = held.without_submission(bytes);
            if held.submissions == 0 {
                self.of_tenants.remove(tenant);
            }
        }
    }
}

/// The shares, as submissions hold them.
#[derive(Debug, Clone)]
pub(super) struct SharedQueueShares(Arc<Mutex<QueueShares>>);

impl SharedQueueShares {
    pub(super) fn with_limit(most: QueueUse) -> Self {
        Self(Arc::new(Mutex::new(QueueShares::with_limit(most))))
    }

    pub(super) fn take_room(&self, tenant: TenantId, bytes: usize) -> Result<QueueRoom, AcceptError> {
        let bytes = self.lock().take_room(&tenant, bytes)?;
        Ok(QueueRoom { shares: self.clone(), tenant, bytes })
    }

    fn lock(&self) -> MutexGuard<'_, QueueShares> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The room of one submission; released on drop.
#[derive(Debug)]
pub(super) struct QueueRoom {
    shares: SharedQueueShares,
    pub(super) tenant: TenantId,
    bytes: usize,
}

impl Drop for QueueRoom {
    fn drop(&mut self) {
        self.shares.lock().give_back(&self.tenant, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> TenantId {
        TenantId::parse(name).unwrap()
    }

    fn fill(shares: &SharedQueueShares, name: &str, bytes: usize) -> (Vec<QueueRoom>, AcceptError) {
        let mut rooms = Vec::new();
        loop {
            match shares.take_room(tenant(name), bytes) {
                Ok(room) => rooms.push(room),
                Err(refusal) => return (rooms, refusal),
            }
        }
    }

    #[test]
    fn tenant_at_queue_share_is_refused() {
        for bytes in [0, 100] {
            let shares = SharedQueueShares::with_limit(QueueUse { submissions: 8, bytes: 800 });
            let (noisy, refusal) = fill(&shares, "noisy", bytes);
            assert_eq!((noisy.len(), refusal), (6, AcceptError::TenantQueueFull));
            let (quiet, refusal) = fill(&shares, "quiet", bytes);
            assert_eq!((quiet.len(), refusal), (2, AcceptError::QueueFull));
            drop(noisy);
            assert!(shares.take_room(tenant("noisy"), bytes).is_ok());
        }
    }

    #[test]
    fn released_queue_room_leaves_no_entry() {
        let shares = SharedQueueShares::with_limit(QueueUse { submissions: 8, bytes: 800 });
        drop(fill(&shares, "noisy", 100));
        assert_eq!(shares.lock().all, QueueUse::default());
        assert!(shares.lock().of_tenants.is_empty());
    }

    #[test]
    fn oversized_submission_takes_whole_share() {
        let shares = SharedQueueShares::with_limit(QueueUse { submissions: 8, bytes: 800 });
        let large = shares.take_room(tenant("noisy"), 10_000).unwrap();
        assert_eq!(shares.take_room(tenant("noisy"), 1).unwrap_err(), AcceptError::TenantQueueFull);
        assert!(shares.take_room(tenant("quiet"), 200).is_ok());
        drop(large);
        assert!(shares.take_room(tenant("noisy"), 1).is_ok());
    }
}
