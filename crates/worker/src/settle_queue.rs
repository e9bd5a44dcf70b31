//! Chooses which outcomes are recorded next (fair batching).
//!
//! Round robin between tenants, so that the outcomes of one do not wait for all outcomes of another. One
//! batch is in flight at a time, so that the next one grows meanwhile. A large transaction takes long, so
//! tenants with few outcomes do not share one with the backlog of another tenant: an extra batch beside it is
//! theirs. Only one batch at a time contains outcomes of a tenant, which keeps their order.

use std::collections::BTreeSet;

use millstream_model::fair::FairQueue;
use millstream_model::id::TenantId;

/// Upper bound on outcomes per transaction.
pub(crate) const BATCH: usize = 256;

/// A tenant with more outcomes waiting than this has a backlog.
const FEW_OUTCOMES: usize = 16;

/// The two kinds of batches in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SettlePlace {
    Regular,
    Extra,
}

/// Tenants of a batch in flight.
type BatchTenants = Option<BTreeSet<TenantId>>;

#[derive(Debug)]
pub(crate) struct SettleQueue<T> {
    waiting: FairQueue<T>,
    regular: BatchTenants,
    extra: BatchTenants,
}

impl<T> Default for SettleQueue<T> {
    fn default() -> Self {
        Self { waiting: FairQueue::default(), regular: None, extra: None }
    }
}

impl<T> SettleQueue<T> {
    pub(crate) fn push_outcome(&mut self, tenant: &TenantId, outcome: T) {
        self.waiting.push(tenant, outcome);
    }

    /// The next batch; `None` while the queue is empty or has to wait for a batch in flight.
    pub(crate) fn next_batch(&mut self) -> Option<(SettlePlace, Vec<T>)> {
        let few = |queue: &Self, tenant: &TenantId| queue.waiting.len_of(tenant) <= FEW_OUTCOMES;
        let has_backlog = self.waiting.waiting_tenants().any(|tenant| !few(self, tenant));
        if self.extra.is_none() && (has_backlog || self.regular.is_some()) {
            let tenants =
                self.tenants_where(|tenant| few(self, tenant) && !batch_has_tenant(&self.regular, tenant));
            if let Some(batch) = self.take_batch(tenants) {
                self.extra = Some(batch.0);
                return Some((SettlePlace::Extra, batch.1));
            }
        }
        if self.regular.is_some() {
            return None;
        }
        let is_of_the_extra =
            |tenant: &TenantId| batch_has_tenant(&self.extra, tenant) || (has_backlog && few(self, tenant));
        let tenants = self.tenants_where(|tenant| !is_of_the_extra(tenant));
        let batch = self.take_batch(tenants)?;
        self.regular = Some(batch.0);
        Some((SettlePlace::Regular, batch.1))
    }

    fn tenants_where(&self, passes: impl Fn(&TenantId) -> bool) -> BTreeSet<TenantId> {
        self.waiting.waiting_tenants().filter(|tenant| passes(tenant)).cloned().collect()
    }

    /// A batch of these tenants, with those that have an outcome in it.
    fn take_batch(&mut self, tenants: BTreeSet<TenantId>) -> Option<(BTreeSet<TenantId>, Vec<T>)> {
        let (mut taken, mut batch) = (BTreeSet::new(), Vec::new());
        while batch.len() < BATCH
            && let Some((tenant, outcome)) = self.waiting.pop_where(|tenant| tenants.contains(tenant))
        {
            taken.insert(tenant);
            batch.push(outcome);
        }
        (!batch.is_empty()).then_some((taken, batch))
    }

    pub(crate) fn batch_ended(&mut self, place: SettlePlace) {
        match place {
            SettlePlace::Regular => self.regular = None,
            SettlePlace::Extra => self.extra = None,
        }
    }
}

fn batch_has_tenant(batch: &BatchTenants, tenant: &TenantId) -> bool {
    batch.as_ref().is_some_and(|tenants| tenants.contains(tenant))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(outcomes: &[(&str, usize)]) -> SettleQueue<String> {
        let mut queue = SettleQueue::default();
        for (name, count) in outcomes {
            add(&mut queue, name, *count);
        }
        queue
    }

    fn add(queue: &mut SettleQueue<String>, name: &str, count: usize) {
        let tenant = TenantId::parse(name).unwrap();
        for number in 0..count {
            queue.push_outcome(&tenant, format!("{name}{number}"));
        }
    }

    #[test]
    fn few_outcomes_avoid_backlog_transaction() {
        let mut queue = queue(&[("busy", 1_000), ("quiet", 1), ("third", 2)]);
        let (place, batch) = queue.next_batch().unwrap();
        assert_eq!((place, batch.len()), (SettlePlace::Extra, 3));
        let (place, batch) = queue.next_batch().unwrap();
        assert_eq!((place, batch.len()), (SettlePlace::Regular, BATCH));
        assert!(batch.iter().all(|outcome| outcome.starts_with("busy")));
    }

    #[test]
    fn settle_backlogs_take_turns() {
        let mut queue = queue(&[("a", 1_000), ("b", 1_000)]);
        let (place, batch) = queue.next_batch().unwrap();
        assert_eq!((place, batch.len()), (SettlePlace::Regular, BATCH));
        assert_eq!(batch.iter().filter(|outcome| outcome.starts_with('a')).count(), BATCH / 2);
        assert!(queue.next_batch().is_none(), "the extra batch is for few outcomes");
    }

    #[test]
    fn small_tenants_share_settle_batch() {
        let mut queue = queue(&[("a", 3), ("b", 16)]);
        let (place, batch) = queue.next_batch().unwrap();
        assert_eq!((place, batch.len()), (SettlePlace::Regular, 19));
    }

    #[test]
    fn outcome_of_other_tenant_uses_extra_batch() {
        let mut queue = queue(&[("busy", 1_000)]);
        let _ = queue.next_batch().unwrap();
        assert!(queue.next_batch().is_none(), "the rest grows into the next batch");
        add(&mut queue, "quiet", 2);
        assert_eq!(queue.next_batch(), Some((SettlePlace::Extra, vec!["quiet0".into(), "quiet1".into()])));
        add(&mut queue, "third", 1);
        assert!(queue.next_batch().is_none(), "two are on their way");
        queue.batch_ended(SettlePlace::Regular);
        let (place, batch) = queue.next_batch().unwrap();
        assert_eq!((place, batch.len()), (SettlePlace::Regular, BATCH), "it waits for the short one");
        queue.batch_ended(SettlePlace::Extra);
        assert_eq!(queue.next_batch(), Some((SettlePlace::Extra, vec!["third0".into()])));
    }

    #[test]
    fn tenant_outcomes_keep_their_order() {
        let mut queue = queue(&[("busy", 300)]);
        let _ = queue.next_batch().unwrap();
        add(&mut queue, "quiet", 1);
        let _ = queue.next_batch().unwrap();
        add(&mut queue, "quiet", 1);
        queue.batch_ended(SettlePlace::Regular);
        let (place, batch) = queue.next_batch().unwrap();
        assert_eq!((place, batch.len()), (SettlePlace::Regular, 44), "without the tenant of the extra batch");
        assert_eq!((&*batch[0], &*batch[43]), ("busy256", "busy299"));
        queue.batch_ended(SettlePlace::Extra);
        assert_eq!(queue.next_batch(), Some((SettlePlace::Extra, vec!["quiet0".into()])));
    }

    #[test]
    fn every_outcome_is_settled() {
        let mut queue = queue(&[("a", 700), ("b", 17), ("c", 16), ("d", 1)]);
        let mut recorded = 0;
        while let Some((place, batch)) = queue.next_batch() {
            recorded += batch.len();
            queue.batch_ended(place);
        }
        assert_eq!(recorded, 734);
    }
}
