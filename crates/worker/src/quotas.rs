//! Tenant quotas of a worker: attempt time, slots, and the depth, rate and number of children.
//!
//! A worker refuses no event and no outcome. A child over the rate limit, or of a tenant at its limit of open
//! executions, waits and is retried, and so do a device run and a people item; a child over the depth limit
//! fails the action that starts it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use millstream_model::id::TenantId;
use millstream_model::quota::{
    BucketRate, CountedQuota, EffectiveQuota, QuotaName, QuotaRefusal, QuotaSettings, TokenBucket,
};
use millstream_store::StoreResult;
use millstream_store::quota_cache::QuotaCache;
use millstream_store::quota_store::QuotaStore;
use tokio::time::Instant;

use crate::quota_rows::QuotaRowCounts;

#[derive(Debug)]
pub(crate) struct WorkerQuotas {
    book: QuotaCache,
    /// For tenants whose executions start children.
    children: Mutex<HashMap<TenantId, TokenBucket>>,
    began: Instant,
    rows: QuotaRowCounts,
}

/// Capacity of the cache of buckets; an evicted bucket comes back full.
const REMEMBERED: usize = 10_000;

impl WorkerQuotas {
    pub(crate) fn from_settings(settings: QuotaSettings) -> Self {
        let (book, rows) = (QuotaCache::from_settings(settings), QuotaRowCounts::default());
        Self { book, children: Mutex::default(), began: Instant::now(), rows }
    }

    pub(crate) async fn refresh_changed(&self, store: &dyn QuotaStore) -> StoreResult<()> {
        self.book.refresh(store).await
    }

    pub(crate) fn quota_of(&self, tenant: &TenantId) -> Arc<EffectiveQuota> {
        self.book.effective_quota(tenant)
    }

    /// How many of `slots` action slots the tenant may hold.
    pub(crate) fn action_slots(&self, tenant: &TenantId, slots: usize) -> usize {
        let quota = self.quota_of(tenant).value(QuotaName::ActionSlots);
        let most = quota.of_capacity(u64::try_from(slots).unwrap_or(u64::MAX));
        usize::try_from(most).unwrap_or(usize::MAX)
    }

    /// Admits one more child now, or returns the time to wait.
    pub(crate) fn admit_child(&self, tenant: &TenantId) -> std::result::Result<(), QuotaRefusal> {
        let quota = self.quota_of(tenant).get(QuotaName::ChildrenPerSecond);
        let Some(per_second) = quota.value.at_most() else { return Ok(()) };
        let (rate, now) = (BucketRate { per_second, burst: per_second }, self.began.elapsed());
        let mut buckets = self.children.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= REMEMBERED && !buckets.contains_key(tenant) {
            buckets.clear();
        }
        let bucket = buckets.entry(tenant.clone()).or_insert_with(|| TokenBucket::new_full(rate, now));
        let taken = bucket.take(rate, 1, now);
        taken.map_err(|wait| QuotaRefusal::with_retry(QuotaName::ChildrenPerSecond, quota, wait))
    }

    /// Admits one more row, or returns the exhausted quota.
    pub(crate) async fn admit_row(
        &self,
        store: &dyn QuotaStore,
        tenant: &TenantId,
        counted: CountedQuota,
    ) -> StoreResult<std::result::Result<(), QuotaRefusal>> {
        let quota = self.quota_of(tenant).get(counted.quota_name());
        let Some(most) = quota.value.at_most() else { return Ok(Ok(())) };
        let admitted = self.rows.admit_row(store, tenant, counted, most).await?;
        Ok(if admitted { Ok(()) } else { Err(QuotaRefusal::without_retry(counted.quota_name(), quota)) })
    }

    /// Refuses a child with more ancestors than the quota permits.
    pub(crate) fn admit_depth(&self, tenant: &TenantId, depth: u64) -> std::result::Result<(), QuotaRefusal> {
        let quota = self.quota_of(tenant).get(QuotaName::ChildDepth);
        match quota.value.at_most() {
            Some(most) if depth > most => Err(QuotaRefusal::without_retry(QuotaName::ChildDepth, quota)),
            Some(_) | None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use millstream_model::quota::{QuotaSet, QuotaValue};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn children_over_tenant_rate_wait() {
        let every_tenant = QuotaSet::default().with(QuotaName::ChildrenPerSecond, QuotaValue::AtMost(2));
        let quotas = WorkerQuotas::from_settings(QuotaSettings { every_tenant, ..QuotaSettings::default() });
        let (noisy, quiet) = (TenantId::parse("noisy").unwrap(), TenantId::parse("quiet").unwrap());
        assert_eq!([(); 2].map(|()| quotas.admit_child(&noisy)), [Ok(()), Ok(())]);
        let refusal = quotas.admit_child(&noisy).unwrap_err();
        assert_eq!(refusal.retry_after, Some(Duration::from_millis(500)));
        assert_eq!(quotas.admit_child(&quiet), Ok(()));
        tokio::time::advance(Duration::from_millis(500)).await;
        assert_eq!(quotas.admit_child(&noisy), Ok(()));
    }
}
