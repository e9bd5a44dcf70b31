//! Notices: outbound events about runs and items ([`millstream_model::notice`]), and which sink has not
//! received them.
//!
//! ```text
//! notice (written with its commit, without a sink)
//!    └ spread_notices: a copy for every configured sink, under the same position
//!         └ due_notices → sent → delete_delivered_notices: the copy is removed
//!                             └ refused → postpone_notices: that subject waits, at that sink alone
//! ```
//!
//! Notices are few, so each sink has copies of its own. Of one subject only the first is due: the next one
//! waits until the first was received. Notices of one subject become visible in the order of their positions.

use millstream_devices::claim;
use millstream_model::id::{Name, TenantId};
use millstream_model::notice::Notice;
use millstream_model::time::Timestamp;
use millstream_people::assignment;

use crate::StoreResult;
use crate::item_store::ItemCommit;
use crate::run_store::RunWrite;

#[async_trait::async_trait]
pub trait Notices: Send + Sync {
    /// Hands up to `limit` new notices, of all tenants, in the order of their positions, to these sinks;
    /// without a sink they are removed. One transaction: a notice is handed out once. Returns how many there
    /// were.
    async fn spread_notices(&self, sinks: &[Name], limit: usize, now: Timestamp) -> StoreResult<usize>;

    /// Notices that are due for this sink, the longest due first; of each subject the first that the sink has
    /// not received.
    async fn due_notices(&self, sink: &Name, limit: usize, now: Timestamp) -> StoreResult<Vec<DueNotice>>;

    /// Records that the sink has received these.
    async fn delete_delivered_notices(&self, sink: &Name, positions: &[i64]) -> StoreResult<()>;

    /// Backoff: these are not due before their time.
    async fn postpone_notices(&self, sink: &Name, notices: &[NoticeBackoff]) -> StoreResult<()>;

    /// What each sink has not received, by its name; sinks without a backlog are left out.
    async fn notice_backlogs(&self) -> StoreResult<Vec<NoticeBacklog>>;

    /// Removes up to `limit` notices older than `before`, received or not.
    async fn purge_notices(&self, before: Timestamp, limit: usize) -> StoreResult<u64>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueNotice {
    pub position: i64,
    pub tenant: TenantId,
    pub notice: Notice,
    /// How often it was put off.
    pub attempts: u32,
}

#[derive(Debug, Clone)]
pub struct NoticeBackoff {
    pub position: i64,
    pub until: Timestamp,
    pub attempts: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoticeBacklog {
    pub sink: Name,
    pub notices: u64,
    /// Time of the oldest notice or entry that the sink has not received.
    pub oldest: Timestamp,
}

/// Notices that these changes of runs produce, in order.
pub fn of_runs<'a>(writes: impl IntoIterator<Item = &'a RunWrite>) -> Vec<(&'a TenantId, Notice)> {
    let told = |write: &'a RunWrite| {
        let notices = claim::run_notices(&write.key.run, &write.run, &write.log);
        notices.into_iter().map(|notice| (&write.key.tenant, notice))
    };
    writes.into_iter().flat_map(told).collect()
}

/// Notices that these changes of items produce, in order.
pub fn of_items<'a>(commits: impl IntoIterator<Item = &'a ItemCommit>) -> Vec<(&'a TenantId, Notice)> {
    let told = |commit: &'a ItemCommit| {
        let notices = assignment::notices::item_notices(&commit.change);
        notices.into_iter().map(|notice| (&commit.key.tenant, notice))
    };
    commits.into_iter().flat_map(told).collect()
}
