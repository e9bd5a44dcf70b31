//! Which outcomes are recorded next.
//!
//! Tenants take turns, so that the outcomes of one do not wait for all outcomes of another. One batch is on its way at
//! a time, so that the next one grows meanwhile; an extra one may go for tenants that have nothing in it. What is
//! recorded of one tenant at a time is one batch: its outcomes keep their order.

use std::collections::BTreeSet;

use millstream_core::fair::FairQueue;
use millstream_core::id::TenantId;

/// One transaction settles at most this many.
pub(crate) const BATCH: usize = 256;

/// Which of the two a batch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SettlePlace {
    Regular,
    Extra,
}

/// The tenants of a batch that is on its way.
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
    pub(crate) fn push(&mut self, tenant: &TenantId, outcome: T) {
        self.waiting.push(tenant, outcome);
    }

    /// The next batch; `None` while there is nothing to record, or what there is has to wait for a batch on its way.
    pub(crate) fn next_batch(&mut self) -> Option<(SettlePlace, Vec<T>)> {
        let (place, elsewhere) = match (&self.regular, &self.extra) {
            (None, extra) => (SettlePlace::Regular, extra.as_ref()),
            (Some(regular), None) => (SettlePlace::Extra, Some(regular)),
            (Some(_), Some(_)) => return None,
        };
        let (mut tenants, mut batch) = (BTreeSet::new(), Vec::new());
        let passes = |tenant: &TenantId| elsewhere.is_none_or(|elsewhere| !elsewhere.contains(tenant));
        while batch.len() < BATCH
            && let Some((tenant, outcome)) = self.waiting.pop_where(passes)
        {
            tenants.insert(tenant);
            batch.push(outcome);
        }
        if batch.is_empty() {
            return None;
        }
        match place {
            SettlePlace::Regular => self.regular = Some(tenants),
            SettlePlace::Extra => self.extra = Some(tenants),
        }
        Some((place, batch))
    }

    pub(crate) fn batch_ended(&mut self, place: SettlePlace) {
        match place {
            SettlePlace::Regular => self.regular = None,
            SettlePlace::Extra => self.extra = None,
        }
    }
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
            queue.push(&tenant, format!("{name}{number}"));
        }
    }

    #[test]
    fn an_outcome_does_not_wait_for_the_outcomes_of_another_tenant() {
        let mut queue = queue(&[("busy", 1_000), ("quiet", 1)]);
        let (place, batch) = queue.next_batch().unwrap();
        assert_eq!((place, batch.len()), (SettlePlace::Regular, BATCH));
        assert!(batch[..2].contains(&"quiet0".to_owned()), "{:?}", &batch[..2]);
    }

    #[test]
    fn an_outcome_of_another_tenant_goes_beside_the_batch_that_is_on_its_way() {
        let mut queue = queue(&[("busy", 1_000)]);
        let _ = queue.next_batch().unwrap();
        assert!(queue.next_batch().is_none(), "the rest grows into the next batch");
        add(&mut queue, "quiet", 2);
        assert_eq!(queue.next_batch(), Some((SettlePlace::Extra, vec!["quiet0".into(), "quiet1".into()])));
        add(&mut queue, "third", 1);
        assert!(queue.next_batch().is_none(), "two are on their way");
    }

    #[test]
    fn outcomes_of_one_tenant_are_in_one_batch_at_a_time_and_in_order() {
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
}
