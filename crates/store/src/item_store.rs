//! Items of people's work: imported, loaded with their assignments, and changed as `people` decides.
//!
//! Optimistic concurrency: an item and its assignments are one aggregate with one version. A writer loads it,
//! asks [`step`](millstream_people::assignment::step::step_item), and commits the resulting change; of two
//! concurrent commits the second conflicts and loads again. When a change ends the wait of an execution, the
//! same transaction settles the waiting action.

use std::collections::{BTreeMap, BTreeSet};

use millstream_model::id::{AssignmentId, ItemKey, Name, TenantId, WorkerId};
use millstream_model::problem::ValidationProblem;
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_people::assignment::stats::{self, AssignmentTotals, AssignmentTotalsKey};
use millstream_people::assignment::{ItemAggregate, ItemChange, NewQueueItem, QueueItem};

use crate::StoreResult;
use crate::action_store::{SettleVerdict, Settlement};

#[async_trait::async_trait]
pub trait ItemStore: Send + Sync {
    /// Put items into a queue, in one transaction; they queue up in the order given. An existing item with
    /// identical content is a repeat.
    async fn import_items(
        &self,
        tenant: &TenantId,
        queue: &Name,
        items: &[NewQueueItem],
        now: Timestamp,
    ) -> StoreResult<Vec<ImportVerdict>>;

    /// In the order asked; `None` where there is none.
    async fn load_items(&self, wanted: &[ItemRef]) -> StoreResult<Vec<Option<LoadedItem>>>;

    /// Write changes, each if its item still has the version that it was loaded with; in one transaction,
    /// with a verdict for each. An item that occurs twice conflicts the second time. `worker` is recorded as
    /// the settler; nothing is leased to it.
    async fn commit_items(
        &self,
        worker: &WorkerId,
        batch: &[ItemCommit],
        now: Timestamp,
    ) -> StoreResult<Vec<ItemCommitVerdict>>;

    /// Remove up to `limit` items that ended before `before`, with their assignments and logs, unless a
    /// correction is open. Returns how many were removed. Totals stay; ids are free again.
    async fn purge_items(&self, before: Timestamp, limit: usize) -> StoreResult<u64>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImportVerdict {
    Created,
    Repeat,
    /// Another item has this id.
    Taken,
    Refused(Vec<ValidationProblem>),
    NoQueue,
}

impl ImportVerdict {
    /// The verdict on an import whose id exists: a repeat or a different item.
    pub fn compare_with_existing(
        existing: &QueueItem,
        payload: &RawJson,
        queue: &Name,
        new: &NewQueueItem,
    ) -> Self {
        let first = existing.escalated_from.first().unwrap_or(&existing.queue);
        let same = first == queue && *payload == new.payload && existing.own == new.own;
        if same { Self::Repeat } else { Self::Taken }
    }
}

/// What to load: an item, or the item of an assignment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ItemRef {
    Item(ItemKey),
    Assignment(TenantId, AssignmentId),
}

/// An item with its assignments and its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedItem {
    pub key: ItemKey,
    pub version: i64,
    pub work: ItemAggregate,
}

/// One change, with its precondition.
#[derive(Debug, Clone)]
pub struct ItemCommit {
    pub key: ItemKey,
    pub expected: i64,
    pub change: ItemChange,
    pub totals: BTreeMap<AssignmentTotalsKey, AssignmentTotals>,
    /// Settlement of the action that waits for the item, where the change ends the wait.
    pub settlement: Option<Settlement>,
}

impl ItemCommit {
    pub fn of(loaded: &LoadedItem, change: ItemChange, settlement: Option<Settlement>) -> Self {
        let totals = stats::totals_added(&loaded.work, &change);
        Self { key: loaded.key.clone(), expected: loaded.version, change, totals, settlement }
    }
}

/// Each commit of a batch, and whether it is the first of its item there: later ones conflict, whatever they
/// expect.
pub fn mark_first_commits(batch: &[ItemCommit]) -> impl Iterator<Item = (&ItemCommit, bool)> {
    let mut seen: BTreeSet<&ItemKey> = BTreeSet::new();
    batch.iter().map(move |commit| (commit, seen.insert(&commit.key)))
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ItemCommitVerdict {
    Done {
        version: i64,
        /// Verdict on the settlement. A stale settlement does not block the change: no action waits for it.
        settled: Option<SettleVerdict>,
    },
    /// The item has this version, or is gone. Nothing of this change was written.
    Conflict { current: Option<i64> },
}
