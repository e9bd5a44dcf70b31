//! Quotas of tenants (rate limits, capacity limits), and their usage.

use millstream_model::id::TenantId;
use millstream_model::quota::{CountedQuota, QuotaSet};
use millstream_model::time::Timestamp;

use crate::StoreResult;

#[async_trait::async_trait]
pub trait QuotaStore: Send + Sync {
    /// Replaces the row of a tenant. Once this returns, [`QuotaStore::quotas_after`] gives every process a
    /// newer revision with this row in it.
    async fn put_quota(&self, tenant: &TenantId, quota: &QuotaSet, now: Timestamp) -> StoreResult<()>;

    /// The current row of one tenant.
    async fn quota_of(&self, tenant: &TenantId) -> StoreResult<Option<QuotaSet>>;

    /// All rows, if the revision differs from `known`. A revision is committed with its rows: a reader that
    /// has revision n has seen every change up to n.
    async fn quotas_after(&self, known: QuotaRevision) -> StoreResult<Option<QuotaRows>>;

    /// Usage of tenants, in the order of the questions. No more than `at_most + 1` rows are counted for one
    /// question; stored bytes are an estimate from a bounded sample.
    async fn count_usage(&self, questions: &[UsageQuestion]) -> StoreResult<Vec<u64>>;
}

/// Counts changes of quotas.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct QuotaRevision(pub i64);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaRows {
    pub revision: QuotaRevision,
    /// In the order of the tenants.
    pub rows: Vec<(TenantId, QuotaSet)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageQuestion {
    pub tenant: TenantId,
    pub counted: CountedQuota,
    pub at_most: u64,
}
