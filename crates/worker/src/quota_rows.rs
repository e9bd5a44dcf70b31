//! Row quotas for actions: open executions, open device runs and items of queues.
//!
//! A count from the store is used for a few seconds, plus the rows that this worker added since. At the quota
//! the rows are counted again at most once a second, and further rows wait: the back-off is a quarter of the
//! time waited so far, so that many waiting actions cost little.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use millstream_model::id::TenantId;
use millstream_model::quota::CountedQuota;
use millstream_store::StoreResult;
use millstream_store::quota_store::{QuotaStore, UsageQuestion};
use tokio::time::Instant;

#[derive(Debug, Default)]
pub(crate) struct QuotaRowCounts {
    counts: Mutex<HashMap<(TenantId, CountedQuota), QuotaRowCount>>,
    /// Allows one count at a time.
    counting: tokio::sync::Mutex<()>,
}

#[derive(Debug, Clone, Copy)]
struct QuotaRowCount {
    rows: u64,
    /// Rows admitted by this worker since the count.
    added: u64,
    counted_at: Instant,
    /// A count that took longer is used for longer.
    used_until: Instant,
}

/// Minimum and maximum time for which a count is used.
const USED: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(8));
/// Minimum time between two counts at the quota.
const REFUSED_FOR: Duration = Duration::from_secs(1);
/// Minimum and maximum pause before a waiting action is retried.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// Capacity of the cache of counts; evicted ones are made again on demand.
const REMEMBERED: usize = 10_000;

/// Pause of an action over a quota that has already waited for `waited`. Over a rate limit the pause is as
/// long as the wait so far, and at least until the next token: a retry at every token would retry all waiting
/// actions for each of them.
pub(crate) fn pause_at_quota(waited: Duration, next_token: Option<Duration>) -> Duration {
    match next_token {
        Some(next_token) => waited.clamp(next_token.min(PAUSE.1), PAUSE.1),
        None => (waited / 4).clamp(PAUSE.0, PAUSE.1),
    }
}

impl QuotaRowCounts {
    /// Whether one more row fits within `most`; counts the rows if that is not known.
    pub(crate) async fn admit_row(
        &self,
        store: &dyn QuotaStore,
        tenant: &TenantId,
        counted: CountedQuota,
        most: u64,
    ) -> StoreResult<bool> {
        if let Some(admitted) = self.admit_within(tenant, counted, most) {
            return Ok(admitted);
        }
        let _one_at_a_time = self.counting.lock().await;
        if let Some(admitted) = self.admit_within(tenant, counted, most) {
            return Ok(admitted);
        }
        let began = Instant::now();
        let question = UsageQuestion { tenant: tenant.clone(), counted, at_most: most };
        let rows = store.count_usage(&[question]).await?.into_iter().next().unwrap_or(0);
        self.record_count(tenant, counted, rows, began);
        Ok(self.admit_within(tenant, counted, most).unwrap_or(true))
    }

    fn lock_counts(&self) -> MutexGuard<'_, HashMap<(TenantId, CountedQuota), QuotaRowCount>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether one more row fits; `None` when the rows have to be counted first.
    fn admit_within(&self, tenant: &TenantId, counted: CountedQuota, most: u64) -> Option<bool> {
        let mut counts = self.lock_counts();
        let count = counts.get_mut(&(tenant.clone(), counted))?;
        let has_room = count.rows.saturating_add(count.added) < most;
        let is_known = match has_room {
            true => Instant::now() < count.used_until,
            false => count.counted_at.elapsed() < REFUSED_FOR,
        };
        if is_known && has_room {
            count.added += 1;
        }
        is_known.then_some(has_room)
    }

    fn record_count(&self, tenant: &TenantId, counted: CountedQuota, rows: u64, began: Instant) {
        let now = Instant::now();
        let used_until = now + ((now - began) * 100).clamp(USED.0, USED.1);
        let mut counts = self.lock_counts();
        if counts.len() >= REMEMBERED {
            counts.clear();
        }
        let count = QuotaRowCount { rows, added: 0, counted_at: now, used_until };
        counts.insert((tenant.clone(), counted), count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn admitted_rows_count_until_recount() {
        let (counts, tenant) = (QuotaRowCounts::default(), TenantId::default_tenant());
        let admit = || counts.admit_within(&tenant, CountedQuota::OpenExecutions, 3);
        assert_eq!(admit(), None);
        counts.record_count(&tenant, CountedQuota::OpenExecutions, 1, Instant::now());
        assert_eq!([(); 3].map(|()| admit()), [Some(true), Some(true), Some(false)]);
        tokio::time::advance(REFUSED_FOR).await;
        assert_eq!(admit(), None);
        counts.record_count(&tenant, CountedQuota::OpenExecutions, 0, Instant::now());
        tokio::time::advance(USED.0).await;
        assert_eq!(admit(), None, "too old");
    }

    #[test]
    fn quota_pause_grows_with_wait() {
        let second = Duration::from_secs(1);
        let pauses = [0, 8, 3_600].map(|waited| pause_at_quota(second * waited, None));
        assert_eq!(pauses, [second, second * 2, second * 60]);
        let token = Some(second / 100);
        let pauses = [0, 8, 3_600].map(|waited| pause_at_quota(second * waited, token));
        assert_eq!(pauses, [second / 100, second * 8, second * 60]);
    }
}
