//! Quotas on numbers of rows: open executions and runs, definitions, executors, devices, keys, queues,
//! people, items, task leases, and bytes.
//!
//! The first write of a tenant counts its rows; from then on a task recounts them every few seconds while
//! the tenant writes. In between, the rows that this process admits are added to the count. A refusal never
//! relies on a count older than a second. Rarely created rows (definitions, executors, devices, keys,
//! queues, people) are counted for each new one once the tenant is beyond half of its quota.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use millstream_model::id::TenantId;
use millstream_model::quota::{CountedQuota, QuotaRefusal};
use millstream_store::StoreResult;
use millstream_store::quota_store::UsageQuestion;

use super::TenantQuotas;
use crate::refusal::RequestRefusal;

#[derive(Debug, Default)]
pub(super) struct RowCounts(Mutex<HashMap<CountedQuota, RowCount>>);

#[derive(Debug, Clone, Copy)]
struct RowCount {
    rows: u64,
    /// Rows admitted by this process since the count began, less the rows that ended.
    added: i64,
    counted_at: Instant,
    /// Earliest time of the next count: a slower count is repeated less often.
    due_at: Instant,
    /// Whether the count was used since.
    used: bool,
}

impl RowCount {
    fn total(&self) -> u64 {
        self.rows.saturating_add_signed(self.added)
    }

    fn add_rows(&mut self, more: u64) {
        self.added = self.added.saturating_add_unsigned(more);
    }
}

/// Bounds of the pause between two counts; in between, the pause is a hundred times the duration of the
/// count: counting a tenant occupies at most a hundredth of a connection, unless one count takes longer
/// than a hundredth of the longest pause. A count is therefore at most 10 s old: the longest pause plus the
/// pause of the task.
const SHORTEST: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(8);
/// Validity of a count. An idle tenant is not counted, so its count expires.
const BELIEVED: Duration = Duration::from_secs(10);
/// How long a refusal is repeated without counting.
const REFUSED_FOR: Duration = Duration::from_secs(1);

impl TenantQuotas {
    /// Admits `more` rows (or bytes), or refuses because of the quota.
    pub(crate) async fn admit_rows(
        &self,
        tenant: &TenantId,
        counted: CountedQuota,
        more: u64,
    ) -> Result<(), RequestRefusal> {
        if self.admits_without_counting(tenant, counted, more) {
            return Ok(());
        }
        let quota = self.quota_of(tenant).get(counted.quota_name());
        let Some(most) = quota.value.at_most() else { return Ok(()) };
        let usage = self.usage_of(tenant);
        if let Some(count) = usage.counts.lock_counts().get(&counted) {
            let total = count.total().saturating_add(more);
            if total > most && count.counted_at.elapsed() < REFUSED_FOR {
                return Err(QuotaRefusal::without_retry(counted.quota_name(), quota).into());
            }
        }
        self.recount_rows(&[(tenant.clone(), counted)]).await.map_err(RequestRefusal::from)?;
        let mut counts = usage.counts.lock_counts();
        let Some(count) = counts.get_mut(&counted) else { return Ok(()) };
        if count.total().saturating_add(more) > most {
            return Err(QuotaRefusal::without_retry(counted.quota_name(), quota).into());
        }
        count.add_rows(more);
        Ok(())
    }

    /// Admits as many of `wanted` rows as the quota allows.
    pub(crate) async fn admit_some(
        &self,
        tenant: &TenantId,
        counted: CountedQuota,
        wanted: u64,
    ) -> StoreResult<u64> {
        if self.admits_without_counting(tenant, counted, wanted) {
            return Ok(wanted);
        }
        let Some(most) = self.quota_of(tenant).value(counted.quota_name()).at_most() else {
            return Ok(wanted);
        };
        let usage = self.usage_of(tenant);
        let is_fresh = |count: &RowCount| count.counted_at.elapsed() < REFUSED_FOR;
        if !usage.counts.lock_counts().get(&counted).is_some_and(is_fresh) {
            self.recount_rows(&[(tenant.clone(), counted)]).await?;
        }
        let mut counts = usage.counts.lock_counts();
        let Some(count) = counts.get_mut(&counted) else { return Ok(wanted) };
        let admitted = most.saturating_sub(count.total()).min(wanted);
        count.add_rows(admitted);
        Ok(admitted)
    }

    /// Removes `ended` rows, which ended here or were admitted and not written. Returns whether the tenant
    /// was at its quota.
    pub(crate) fn end_rows(&self, tenant: &TenantId, counted: CountedQuota, ended: u64) -> bool {
        let Some(most) = self.quota_of(tenant).value(counted.quota_name()).at_most() else { return false };
        let usage = self.usage_of(tenant);
        let mut counts = usage.counts.lock_counts();
        let Some(count) = counts.get_mut(&counted) else { return false };
        let was_at_quota = count.total() >= most;
        count.added = count.added.saturating_sub_unsigned(ended);
        was_at_quota
    }

    /// The refusal that the tenant would get now, with a fresh count.
    pub(crate) async fn refusal_now(
        &self,
        tenant: &TenantId,
        counted: CountedQuota,
    ) -> StoreResult<Option<QuotaRefusal>> {
        let quota = self.quota_of(tenant).get(counted.quota_name());
        let Some(most) = quota.value.at_most() else { return Ok(None) };
        let question = UsageQuestion { tenant: tenant.clone(), counted, at_most: most };
        let rows = self.store.count_usage(&[question]).await?.into_iter().next().unwrap_or(0);
        Ok((rows >= most).then(|| QuotaRefusal::without_retry(counted.quota_name(), quota)))
    }

    /// Admits `more` rows by the cached count. `false`: the count is not precise enough.
    pub(crate) fn admits_without_counting(
        &self,
        tenant: &TenantId,
        counted: CountedQuota,
        more: u64,
    ) -> bool {
        let Some(most) = self.quota_of(tenant).value(counted.quota_name()).at_most() else { return true };
        let usage = self.usage_of(tenant);
        let mut counts = usage.counts.lock_counts();
        let Some(count) = counts.get_mut(&counted) else { return false };
        count.used = true;
        let total = count.total().saturating_add(more);
        let near = if is_exact(counted) { most / 2 } else { most };
        let admitted = total <= near && count.counted_at.elapsed() < BELIEVED;
        if admitted {
            count.add_rows(more);
        }
        admitted
    }

    /// Recounts every count that was used since it was made.
    pub(super) async fn recount_due(&self) -> StoreResult<()> {
        let now = Instant::now();
        let mut due = Vec::new();
        for (tenant, usage) in self.all_tenants() {
            let counts = usage.counts.lock_counts();
            let used = counts.iter().filter(|(_, count)| count.used && count.due_at <= now);
            due.extend(used.map(|(counted, _)| (tenant.clone(), *counted)));
        }
        for few in due.chunks(16) {
            self.recount_rows(few).await?;
        }
        Ok(())
    }

    async fn recount_rows(&self, due: &[(TenantId, CountedQuota)]) -> StoreResult<()> {
        let question = |(tenant, counted): &(TenantId, CountedQuota)| UsageQuestion {
            tenant: tenant.clone(),
            counted: *counted,
            at_most: self.quota_of(tenant).value(counted.quota_name()).at_most().unwrap_or(0),
        };
        let questions: Vec<UsageQuestion> = due.iter().map(question).collect();
        let added = |(tenant, counted): &(TenantId, CountedQuota)| {
            self.usage_of(tenant).counts.lock_counts().get(counted).map_or(0, |count| count.added)
        };
        let before: Vec<i64> = due.iter().map(added).collect();
        let began = Instant::now();
        let counts = self.store.count_usage(&questions).await?;
        let took = began.elapsed() / u32::try_from(due.len().max(1)).unwrap_or(u32::MAX);
        for (((tenant, counted), rows), before) in due.iter().zip(counts).zip(before) {
            let usage = self.usage_of(tenant);
            let mut counts = usage.counts.lock_counts();
            let added = counts.get(counted).map_or(0, |count| count.added.saturating_sub(before));
            let due_at = began + (took * 100).clamp(SHORTEST, LONGEST);
            let count = RowCount { rows, added, counted_at: Instant::now(), due_at, used: false };
            counts.insert(*counted, count);
        }
        Ok(())
    }
}

/// Whether a write near the quota needs a count of its own.
const fn is_exact(counted: CountedQuota) -> bool {
    match counted {
        CountedQuota::Definitions
        | CountedQuota::Executors
        | CountedQuota::Devices
        | CountedQuota::Keys
        | CountedQuota::Queues
        | CountedQuota::People => true,
        CountedQuota::OpenExecutions
        | CountedQuota::OpenRuns
        | CountedQuota::QueueItems
        | CountedQuota::StoredBytes
        | CountedQuota::TaskLeases => false,
    }
}

impl RowCounts {
    fn lock_counts(&self) -> MutexGuard<'_, HashMap<CountedQuota, RowCount>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
