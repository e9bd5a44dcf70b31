//! The tables of people's work.

use std::collections::{BTreeMap, BTreeSet};

use millstream_model::id::{AssignmentId, ItemKey, Name, PersonId, TenantId};
use millstream_model::time::Timestamp;
use millstream_people::assignment::select::{OpeningChange, PersonProfile, QueuePosition};
use millstream_people::assignment::stats::{self, AssignmentTotals};
use millstream_people::assignment::{ItemAggregate, ItemLogEntry};
use millstream_store::item_store::{ItemCommit, LoadedItem};
use millstream_store::queue_store::QueueView;

#[derive(Debug, Default)]
pub(crate) struct PeopleTables {
    pub(crate) queues: BTreeMap<(TenantId, Name), QueueView>,
    pub(crate) people: BTreeMap<(TenantId, PersonId), PersonProfile>,
    pub(crate) items: BTreeMap<ItemKey, ItemRow>,
    /// The item of each assignment.
    pub(crate) assignments: BTreeMap<(TenantId, AssignmentId), ItemKey>,
    /// Open assignments of people, by id.
    pub(crate) open: BTreeMap<(TenantId, PersonId), BTreeMap<AssignmentId, ItemKey>>,
    /// Items with openings, in the order of their queue.
    pub(crate) openings: BTreeSet<(TenantId, Name, QueuePosition, ItemKey)>,
    pub(crate) totals: BTreeMap<TotalsKey, AssignmentTotals>,
    last_position: i64,
}

/// Tenant, queue, person and day.
pub(crate) type TotalsKey = (TenantId, Name, Option<PersonId>, i64);

#[derive(Debug)]
pub(crate) struct ItemRow {
    pub(crate) work: ItemAggregate,
    pub(crate) version: i64,
    /// In the order of import.
    pub(crate) position: i64,
    /// Position of its openings in the queue, while it has any.
    pub(crate) standing: Option<QueuePosition>,
    pub(crate) log: Vec<ItemLogEntry>,
}

impl PeopleTables {
    pub(crate) fn next_position(&mut self) -> i64 {
        self.last_position += 1;
        self.last_position
    }

    pub(crate) fn load_item(&self, key: &ItemKey) -> Option<LoadedItem> {
        let row = self.items.get(key)?;
        Some(LoadedItem { key: key.clone(), version: row.version, work: row.work.clone() })
    }

    pub(crate) fn add_totals(&mut self, key: TotalsKey, added: &AssignmentTotals) {
        self.totals.entry(key).or_default().merge(added);
    }

    /// Writes the change if the item has the version that it expects.
    pub(crate) fn write_commit(&mut self, commit: &ItemCommit, now: Timestamp) -> Result<i64, Option<i64>> {
        let current = self.items.get(&commit.key).map(|row| row.version);
        if current != Some(commit.expected) {
            return Err(current);
        }
        let tenant = &commit.key.tenant;
        let item = &commit.change.work.item;
        let placed = match commit.change.opening.change {
            OpeningChange::Place => {
                let position = self.next_position();
                Some(Some(QueuePosition { urgency: -item.priority, class: item.class, position }))
            }
            OpeningChange::None | OpeningChange::Close => Some(None),
            OpeningChange::Update => None,
        };
        for one in commit.change.changed.iter().filter_map(|id| commit.change.work.assignments.get(id)) {
            self.assignments.insert((tenant.clone(), one.id), commit.key.clone());
            let theirs = self.open.entry((tenant.clone(), one.person.clone())).or_default();
            if one.status.is_open() {
                theirs.insert(one.id, commit.key.clone());
            } else {
                theirs.remove(&one.id);
            }
        }
        for ((queue, person), added) in &commit.totals {
            self.add_totals((tenant.clone(), queue.clone(), person.clone(), stats::day_of(now)), added);
        }
        let Some(row) = self.items.get_mut(&commit.key) else { return Err(None) };
        let (queue, standing) = (row.work.item.queue.clone(), row.standing);
        row.work = commit.change.work.clone();
        row.version += 1;
        row.standing = placed.unwrap_or(row.standing);
        let key = |queue, standing| (tenant.clone(), queue, standing, commit.key.clone());
        if let Some(standing) = standing {
            self.openings.remove(&key(queue, standing));
        }
        if let Some(standing) = row.standing {
            self.openings.insert(key(row.work.item.queue.clone(), standing));
        }
        row.log.extend(commit.change.log.iter().cloned());
        Ok(row.version)
    }
}
