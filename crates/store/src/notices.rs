//! What others are to be told of runs and items ([`millstream_core::notice`]), and who has not heard it.
//!
//! ```text
//! notice (written with its commit, for nobody yet)
//!    └ spread_notices: a copy for every sink of that moment, under the same position
//!         └ due_notices → told outside → notices_told: the copy goes
//!                             └ refused → put_notices_off: that subject waits, at that sink alone
//! ```
//!
//! Notices are few, so each sink has copies of its own. Of one subject only the first is due: the next one waits
//! until that was heard. Notices of one subject are seen in the order of their positions.

use millstream_core::id::{Name, TenantId};
use millstream_core::notice::Notice;
use millstream_core::time::Timestamp;
use millstream_core::{assignment, claim};

use crate::Result;
use crate::item_store::ItemCommit;
use crate::run_store::RunWrite;

#[async_trait::async_trait]
pub trait Notices: Send + Sync {
    /// Hands up to `limit` new notices, of all tenants, in the order of their positions, to these sinks; without a
    /// sink they are gone. One transaction: a notice is handed out once. Returns how many there were.
    async fn spread_notices(&self, sinks: &[Name], limit: usize, now: Timestamp) -> Result<usize>;

    /// What this sink is to hear by now, the longest due first; of each subject the first that it has not heard.
    async fn due_notices(&self, sink: &Name, limit: usize, now: Timestamp) -> Result<Vec<DueNotice>>;

    /// The sink has heard these.
    async fn notices_told(&self, sink: &Name, positions: &[i64]) -> Result<()>;

    /// These are not due before their time.
    async fn put_notices_off(&self, sink: &Name, notices: &[NoticePutOff]) -> Result<()>;

    /// What each sink has not heard, by its name; sinks that have heard everything are not in it.
    async fn notice_backlogs(&self) -> Result<Vec<NoticeBacklog>>;

    /// Removes up to `limit` notices of before `before`, heard or not.
    async fn purge_notices(&self, before: Timestamp, limit: usize) -> Result<u64>;
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
pub struct NoticePutOff {
    pub position: i64,
    pub until: Timestamp,
    pub attempts: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoticeBacklog {
    pub sink: Name,
    pub notices: u64,
    /// Nothing that it has not heard is older.
    pub oldest: Timestamp,
}

/// What is written with these changes of runs, in order.
pub fn of_runs<'a>(writes: impl IntoIterator<Item = &'a RunWrite>) -> Vec<(&'a TenantId, Notice)> {
    let told = |write: &'a RunWrite| {
        let notices = claim::notices(&write.key.run, &write.run, &write.log);
        notices.into_iter().map(|notice| (&write.key.tenant, notice))
    };
    writes.into_iter().flat_map(told).collect()
}

/// What is written with these changes of items, in order.
pub fn of_items<'a>(commits: impl IntoIterator<Item = &'a ItemCommit>) -> Vec<(&'a TenantId, Notice)> {
    let told = |commit: &'a ItemCommit| {
        let notices = assignment::notices::notices(&commit.change);
        notices.into_iter().map(|notice| (&commit.key.tenant, notice))
    };
    commits.into_iter().flat_map(told).collect()
}
