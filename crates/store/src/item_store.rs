//! Items of people's work: imported, loaded with their assignments, and changed as `core` decides.
//!
//! An item and its assignments are one thing with one version. Whoever changes it loads it, asks
//! [`step`](millstream_core::assignment::step::step), and commits what that says; of two who do so at once one is
//! told to load again. What the commit ends for an execution that waits is settled in the same transaction.

use std::collections::{BTreeMap, BTreeSet};

use millstream_core::assignment::stats::{self, Totals, Whose};
use millstream_core::assignment::{Change, Item, NewItem, Work};
use millstream_core::id::{AssignmentId, ItemKey, Name, TenantId, WorkerId};
use millstream_core::problem::Problem;
use millstream_core::raw::RawJson;
use millstream_core::time::Timestamp;

use crate::Result;
use crate::action_store::{SettleVerdict, Settlement};

#[async_trait::async_trait]
pub trait ItemStore: Send + Sync {
    /// Put items into a queue, in one transaction; they stand in line in the order given. One that is there
    /// already, word for word, is a repeat.
    async fn import(
        &self,
        tenant: &TenantId,
        queue: &Name,
        items: &[NewItem],
        now: Timestamp,
    ) -> Result<Vec<Imported>>;

    /// In the order asked; `None` where there is none.
    async fn load_items(&self, wanted: &[ItemRef]) -> Result<Vec<Option<LoadedItem>>>;

    /// Write changes, each if its item still has the version that it was loaded with; in one transaction, with a
    /// verdict for each. An item that occurs twice conflicts the second time. `worker` is who settles; nothing is
    /// leased to it.
    async fn commit_items(
        &self,
        worker: &WorkerId,
        batch: &[ItemCommit],
        now: Timestamp,
    ) -> Result<Vec<ItemCommitted>>;

    /// Remove up to `limit` items that ended before `before`, with their assignments and logs, unless a correction
    /// is open. Returns how many went. Totals stay; ids are free again.
    async fn purge_items(&self, before: Timestamp, limit: usize) -> Result<u64>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Imported {
    Created,
    Repeat,
    /// There is another item by this id.
    Taken,
    Refused(Vec<Problem>),
    NoQueue,
}

impl Imported {
    /// What an item that is there already means for one that is to be imported.
    pub fn beside(existing: &Item, payload: &RawJson, queue: &Name, new: &NewItem) -> Self {
        let first = existing.escalated_from.first().unwrap_or(&existing.queue);
        let same = first == queue && *payload == new.payload && existing.own == new.own;
        if same { Self::Repeat } else { Self::Taken }
    }
}

/// What to load: an item, or the one that an assignment is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ItemRef {
    Item(ItemKey),
    Assignment(TenantId, AssignmentId),
}

/// An item with its assignments, and which of its versions that is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedItem {
    pub key: ItemKey,
    pub version: i64,
    pub work: Work,
}

/// One change, with its precondition.
#[derive(Debug, Clone)]
pub struct ItemCommit {
    pub key: ItemKey,
    pub expected: i64,
    pub change: Change,
    pub totals: BTreeMap<Whose, Totals>,
    /// Of the action that waits for the item, where the change ends that.
    pub settlement: Option<Settlement>,
}

impl ItemCommit {
    pub fn of(loaded: &LoadedItem, change: Change, settlement: Option<Settlement>) -> Self {
        let totals = stats::added(&loaded.work, &change);
        Self { key: loaded.key.clone(), expected: loaded.version, change, totals, settlement }
    }
}

/// Each of a batch, and whether it is the first of its item there: the others conflict, whatever they expect.
pub fn firsts(batch: &[ItemCommit]) -> impl Iterator<Item = (&ItemCommit, bool)> {
    let mut seen: BTreeSet<&ItemKey> = BTreeSet::new();
    batch.iter().map(move |commit| (commit, seen.insert(&commit.key)))
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ItemCommitted {
    Done {
        version: i64,
        /// Of the settlement that came with it. One that is stale does not hold the change up: nobody waits.
        settled: Option<SettleVerdict>,
    },
    /// The item has this version, or is gone. Nothing of this change was written.
    Conflict { current: Option<i64> },
}
