//! Items, in memory.

use millstream_model::id::{ItemKey, Name, TenantId, WorkerId};
use millstream_model::time::Timestamp;
use millstream_people::assignment::select::QueuePosition;
use millstream_people::assignment::{ItemAggregate, ItemLogEntry, NewQueueItem, QueueItem, stats};
use millstream_store::StoreResult;
use millstream_store::item_store::{
    ImportVerdict, ItemCommit, ItemCommitVerdict, ItemRef, ItemStore, LoadedItem, mark_first_commits,
};
use millstream_store::notices::of_items;
use millstream_store::opening_selection::grant_without_slots;

use crate::people::ItemRow;
use crate::settle::MemorySettleView;
use crate::tables::MemoryTables;
use crate::{MemoryStore, notices, settle};

#[async_trait::async_trait]
impl ItemStore for MemoryStore {
    async fn import_items(
        &self,
        tenant: &TenantId,
        queue: &Name,
        items: &[NewQueueItem],
        now: Timestamp,
    ) -> StoreResult<Vec<ImportVerdict>> {
        let mut tables = self.lock_tables();
        Ok(items.iter().map(|new| import_item(&mut tables, tenant, queue, new, now)).collect())
    }

    async fn load_items(&self, wanted: &[ItemRef]) -> StoreResult<Vec<Option<LoadedItem>>> {
        let tables = self.lock_tables();
        let load = |wanted: &ItemRef| match wanted {
            ItemRef::Item(key) => tables.people.load_item(key),
            ItemRef::Assignment(tenant, id) => {
                tables.people.load_item(tables.people.assignments.get(&(tenant.clone(), *id))?)
            }
        };
        Ok(wanted.iter().map(load).collect())
    }

    async fn commit_items(
        &self,
        worker: &WorkerId,
        batch: &[ItemCommit],
        now: Timestamp,
    ) -> StoreResult<Vec<ItemCommitVerdict>> {
        let mut tables = self.lock_tables();
        let verdict = |(commit, is_first): (&ItemCommit, bool)| {
            if is_first {
                return write_commit(&mut tables, worker, commit, now);
            }
            let current = tables.people.items.get(&commit.key).map(|row| row.version);
            ItemCommitVerdict::Conflict { current }
        };
        Ok(mark_first_commits(batch).map(verdict).collect())
    }

    async fn purge_items(&self, before: Timestamp, limit: usize) -> StoreResult<u64> {
        let mut tables = self.lock_tables();
        let old = |row: &ItemRow| {
            let open = row.work.assignments.values().any(|one| one.status.is_open());
            row.work.item.ended_at.is_some_and(|ended| ended < before) && !open
        };
        let gone: Vec<ItemKey> = tables
            .people
            .items
            .iter()
            .filter(|(_, row)| old(row))
            .map(|(key, _)| key.clone())
            .take(limit)
            .collect();
        for key in &gone {
            tables.people.items.remove(key);
        }
        tables.people.assignments.retain(|_, item| !gone.contains(item));
        Ok(gone.len() as u64)
    }
}

fn import_item(
    tables: &mut MemoryTables,
    tenant: &TenantId,
    queue: &Name,
    new: &NewQueueItem,
    now: Timestamp,
) -> ImportVerdict {
    let people = &mut tables.people;
    let Some(view) = people.queues.get(&(tenant.clone(), queue.clone())) else {
        return ImportVerdict::NoQueue;
    };
    let key = ItemKey { tenant: tenant.clone(), item: new.id.clone() };
    if let Some(row) = people.items.get(&key) {
        return ImportVerdict::compare_with_existing(&row.work.item, &row.work.payload, queue, new);
    }
    let problems = new.find_problems(&view.config);
    if !problems.is_empty() {
        return ImportVerdict::Refused(problems);
    }
    let item = QueueItem::from_import(new, &view.config, now);
    let log = vec![ItemLogEntry::of_import(&item)];
    let position = people.next_position();
    let standing = Some(QueuePosition { urgency: -item.priority, class: item.class, position });
    let work = ItemAggregate::new(item, new.payload.clone());
    let opening = standing.map(|standing| (tenant.clone(), queue.clone(), standing, key.clone()));
    people.openings.extend(opening);
    people.items.insert(key, ItemRow { work, version: 1, position, standing, log });
    people.add_totals((tenant.clone(), queue.clone(), None, stats::day_of(now)), &stats::totals_of_import(1));
    ImportVerdict::Created
}

fn write_commit(
    tables: &mut MemoryTables,
    worker: &WorkerId,
    commit: &ItemCommit,
    now: Timestamp,
) -> ItemCommitVerdict {
    match tables.people.write_commit(commit, now) {
        Err(current) => ItemCommitVerdict::Conflict { current },
        Ok(version) => {
            notices::write(tables, of_items([commit]));
            let settled = commit.settlement.as_ref().and_then(|settlement| {
                let batch = std::slice::from_ref(settlement);
                let settled = settle::settle_within(
                    tables,
                    worker,
                    batch,
                    &grant_without_slots(),
                    now,
                    &MemorySettleView::Current,
                );
                settled.verdicts.into_iter().next()
            });
            ItemCommitVerdict::Done { version, settled }
        }
    }
}
