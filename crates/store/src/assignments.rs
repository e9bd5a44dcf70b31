//! Assignments: handing out items, deadlines that have passed, and views.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use millstream_model::id::{AssignmentId, ItemId, ItemKey, Name, PersonId, TenantId};
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_people::assignment::select::PersonIdleReason;
use millstream_people::assignment::stats::AssignmentTotals;
use millstream_people::assignment::{AssignmentStatus, ItemAssignment, ItemLogEntry, ItemStatus, QueueItem};

use crate::StoreResult;

#[async_trait::async_trait]
pub trait Assignments: Send + Sync {
    /// Give each caller an assignment, in the order of the callers. A caller with a pending assignment gets
    /// that one again, so a lost answer loses nothing; otherwise the first opening in the queue that the
    /// caller may have. Safe to call concurrently: no opening goes to two callers, no caller exceeds a limit,
    /// and an empty answer means that no opening suits.
    async fn assign_next(
        &self,
        callers: &[AssignmentCaller],
        now: Timestamp,
    ) -> StoreResult<Vec<NextAssignment>>;

    /// Up to `limit` assignments and items whose deadline has passed, the longest overdue first.
    async fn list_overdue(&self, now: Timestamp, limit: usize) -> StoreResult<Vec<OverdueItem>>;
}

#[async_trait::async_trait]
pub trait AssignmentViews: Send + Sync {
    /// Newest first by id, beginning after `after` (at smaller ones).
    async fn list_assignments(
        &self,
        tenant: &TenantId,
        filter: &AssignmentFilter,
        after: Option<AssignmentId>,
        limit: usize,
    ) -> StoreResult<Vec<ItemAssignment>>;

    /// Newest first by import, beginning after the position `after` (at smaller ones).
    async fn list_items(
        &self,
        tenant: &TenantId,
        filter: &ItemFilter,
        after: Option<i64>,
        limit: usize,
    ) -> StoreResult<Vec<ItemView>>;

    /// Entries of an item's log with a number above `after`, in order.
    async fn item_log(&self, item: &ItemKey, after: u32, limit: usize) -> StoreResult<Vec<ItemLogEntry>>;

    /// Totals by queue and person; totals of the queue itself have no person. Ordered by queue and person.
    async fn sum_totals(
        &self,
        tenant: &TenantId,
        filter: &TotalsFilter,
    ) -> StoreResult<Vec<(Name, Option<PersonId>, AssignmentTotals)>>;

    /// Totals of these days by queue, of all tenants; in order.
    async fn totals_by_queue(
        &self,
        days: RangeInclusive<i64>,
    ) -> StoreResult<Vec<(TenantId, Name, AssignmentTotals)>>;
}

/// A person's request for work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssignmentCaller {
    pub tenant: TenantId,
    pub person: PersonId,
    /// The queues to take work from; empty: every queue.
    pub queues: BTreeSet<Name>,
    /// The id for the assignment, if this request creates one.
    pub next: AssignmentId,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextAssignment {
    Assigned(Box<AssignedWork>),
    Nothing(PersonIdleReason),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssignedWork {
    pub assignment: ItemAssignment,
    pub item: QueueItem,
    pub payload: RawJson,
    /// Whether the caller held it before this request.
    pub already_assigned: bool,
}

/// An assignment or item whose deadline has passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverdueItem {
    pub item: ItemKey,
    /// `None`: the item itself.
    pub assignment: Option<AssignmentId>,
    pub at: Timestamp,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AssignmentFilter {
    pub queue: Option<Name>,
    pub status: Option<AssignmentStatus>,
    pub person: Option<PersonId>,
    pub item: Option<ItemId>,
}

impl AssignmentFilter {
    pub fn matches_assignment(&self, one: &ItemAssignment) -> bool {
        self.queue.as_ref().is_none_or(|queue| *queue == one.queue)
            && self.status.is_none_or(|status| status == one.status)
            && self.person.as_ref().is_none_or(|person| *person == one.person)
            && self.item.as_ref().is_none_or(|item| *item == one.item)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ItemFilter {
    pub queue: Option<Name>,
    pub status: Option<ItemStatus>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemView {
    pub item: QueueItem,
    pub payload: RawJson,
    pub version: i64,
    /// In the order of import.
    pub position: i64,
}

/// Days are counted from the epoch, both included.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TotalsFilter {
    pub queue: Option<Name>,
    pub person: Option<PersonId>,
    pub from_day: Option<i64>,
    pub to_day: Option<i64>,
}
