//! Statistics of queues and persons: counters that are aggregated with every change.
//!
//! Assignments are never scanned: a change yields increments, the store aggregates them by queue, person and
//! day, and the figures of a report follow from the sums.

use std::collections::BTreeMap;

use millstream_model::id::{Name, PersonId};
use millstream_model::time::Timestamp;
use serde::Serialize;

use super::item::ItemAggregate;
use super::item_assignment::ItemAssignment;
use super::status::{AssignmentStatus, ItemStatus};
use super::step::ItemChange;

/// The counters, in the order in which stores keep them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AssignmentCounter {
    Created,
    Started,
    Completed,
    Skipped,
    /// Expired before it was started.
    ExpiredPending,
    ExpiredStarted,
    /// Milliseconds from start to completion.
    CompletingMillis,
    /// Attempts used by completed assignments.
    CompletedAttempts,
    ItemsImported,
    ItemsDone,
    ItemsFailed,
    ItemsWithdrawn,
    ItemsEscalated,
}

impl AssignmentCounter {
    pub const ALL: [AssignmentCounter; 13] = [
        Self::Created,
        Self::Started,
        Self::Completed,
        Self::Skipped,
        Self::ExpiredPending,
        Self::ExpiredStarted,
        Self::CompletingMillis,
        Self::CompletedAttempts,
        Self::ItemsImported,
        Self::ItemsDone,
        Self::ItemsFailed,
        Self::ItemsWithdrawn,
        Self::ItemsEscalated,
    ];
}

/// Sums by counter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AssignmentTotals(pub [i64; AssignmentCounter::ALL.len()]);

impl AssignmentTotals {
    pub fn get(&self, counter: AssignmentCounter) -> i64 {
        self.0.get(counter as usize).copied().unwrap_or(0)
    }

    pub fn add(&mut self, counter: AssignmentCounter, amount: i64) {
        if let Some(sum) = self.0.get_mut(counter as usize) {
            *sum = sum.saturating_add(amount);
        }
    }

    pub fn merge(&mut self, other: &AssignmentTotals) {
        for counter in AssignmentCounter::ALL {
            self.add(counter, other.get(counter));
        }
    }

    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

/// Days since the epoch: the key of stored totals.
pub fn day_of(at: Timestamp) -> i64 {
    at.as_millis().div_euclid(86_400_000)
}

/// The key of totals: queue and person; totals of the queue itself have no person.
pub type AssignmentTotalsKey = (Name, Option<PersonId>);

/// The increments of a change. The end of an item counts for the person who caused it.
pub fn totals_added(
    before: &ItemAggregate,
    change: &ItemChange,
) -> BTreeMap<AssignmentTotalsKey, AssignmentTotals> {
    let mut sums: BTreeMap<AssignmentTotalsKey, AssignmentTotals> = BTreeMap::new();
    let after = &change.work;
    let mut last = None;
    for one in change.changed.iter().filter_map(|id| after.assignments.get(id)) {
        let whose = (one.queue.clone(), Some(one.person.clone()));
        count_assignment(sums.entry(whose).or_default(), before.assignments.get(&one.id), one);
        last = Some(one.person.clone()).filter(|_| one.status != AssignmentStatus::Pending).or(last);
    }
    if before.item.status != after.item.status {
        let counter = match after.item.status {
            ItemStatus::Open => return sums,
            ItemStatus::Done => AssignmentCounter::ItemsDone,
            ItemStatus::Failed => AssignmentCounter::ItemsFailed,
            ItemStatus::Withdrawn => AssignmentCounter::ItemsWithdrawn,
            ItemStatus::Escalated => AssignmentCounter::ItemsEscalated,
        };
        sums.entry((after.item.queue.clone(), last)).or_default().add(counter, 1);
    } else if before.item.queue != after.item.queue {
        // The item left one queue and entered another.
        sums.entry((before.item.queue.clone(), last)).or_default().add(AssignmentCounter::ItemsEscalated, 1);
        sums.entry((after.item.queue.clone(), None)).or_default().add(AssignmentCounter::ItemsImported, 1);
    }
    sums.retain(|_, totals| !totals.is_zero());
    sums
}

/// The increments of imported items.
pub fn totals_of_import(items: i64) -> AssignmentTotals {
    let mut totals = AssignmentTotals::default();
    totals.add(AssignmentCounter::ItemsImported, items);
    totals
}

fn count_assignment(sums: &mut AssignmentTotals, before: Option<&ItemAssignment>, after: &ItemAssignment) {
    use AssignmentStatus::{Completed, Expired, InProgress, Pending, Skipped};
    if before.is_none() {
        sums.add(AssignmentCounter::Created, 1);
    }
    let from = before.map_or(Pending, |before| before.status);
    if from == after.status {
        return;
    }
    match after.status {
        Pending => {}
        InProgress => sums.add(AssignmentCounter::Started, 1),
        Skipped => sums.add(AssignmentCounter::Skipped, 1),
        Expired if from == Pending => sums.add(AssignmentCounter::ExpiredPending, 1),
        Expired => sums.add(AssignmentCounter::ExpiredStarted, 1),
        Completed => {
            sums.add(AssignmentCounter::Completed, 1);
            sums.add(AssignmentCounter::CompletedAttempts, i64::from(after.attempts));
            if let (Some(start), Some(end)) = (after.started_at, after.completed_at) {
                sums.add(
                    AssignmentCounter::CompletingMillis,
                    i64::try_from(end.since(start).as_millis()).unwrap_or(0),
                );
            }
        }
    }
}

/// The figures of a queue or person, computed from totals.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AssignmentStats {
    /// All assignments.
    pub total: i64,
    pub by_status: BTreeMap<&'static str, i64>,
    /// Items by status; the open ones are the difference between imported and ended.
    pub items: BTreeMap<&'static str, i64>,
    /// Share of all assignments; `None` if there are no assignments.
    pub completion_rate: Option<f64>,
    pub skip_rate: Option<f64>,
    pub expiry_rate: Option<f64>,
    /// Seconds from start to completion.
    pub average_seconds_to_complete: Option<f64>,
    /// Over completed assignments.
    pub average_attempts: Option<f64>,
}

impl AssignmentStats {
    pub fn from_totals(totals: &AssignmentTotals) -> Self {
        let get = |counter| totals.get(counter);
        let (created, completed, skipped) = (
            get(AssignmentCounter::Created),
            get(AssignmentCounter::Completed),
            get(AssignmentCounter::Skipped),
        );
        let expired = get(AssignmentCounter::ExpiredPending) + get(AssignmentCounter::ExpiredStarted);
        let started = get(AssignmentCounter::Started);
        let in_progress = started - completed - skipped - get(AssignmentCounter::ExpiredStarted);
        let pending = created - started - get(AssignmentCounter::ExpiredPending);
        let by_status = AssignmentStatus::ALL.iter().map(|status| {
            let count = match status {
                AssignmentStatus::Pending => pending,
                AssignmentStatus::InProgress => in_progress,
                AssignmentStatus::Completed => completed,
                AssignmentStatus::Expired => expired,
                AssignmentStatus::Skipped => skipped,
            };
            (status.as_str(), count)
        });
        let ended = [
            (ItemStatus::Done, get(AssignmentCounter::ItemsDone)),
            (ItemStatus::Failed, get(AssignmentCounter::ItemsFailed)),
            (ItemStatus::Withdrawn, get(AssignmentCounter::ItemsWithdrawn)),
            (ItemStatus::Escalated, get(AssignmentCounter::ItemsEscalated)),
        ];
        let open = get(AssignmentCounter::ItemsImported) - ended.iter().map(|(_, count)| count).sum::<i64>();
        let items = ended.into_iter().chain([(ItemStatus::Open, open)]);
        Self {
            total: created,
            by_status: by_status.collect(),
            items: items.map(|(status, count)| (status.as_str(), count)).collect(),
            completion_rate: rate(completed, created),
            skip_rate: rate(skipped, created),
            expiry_rate: rate(expired, created),
            average_seconds_to_complete: rate(get(AssignmentCounter::CompletingMillis), completed)
                .map(|millis| millis / 1000.0),
            average_attempts: rate(get(AssignmentCounter::CompletedAttempts), completed),
        }
    }
}

/// Sums stay far below 2^53, so a double holds them exactly.
fn rate(part: i64, whole: i64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
