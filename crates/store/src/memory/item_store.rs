//! Items, in memory.

use millstream_core::assignment::next::Standing;
use millstream_core::assignment::stats;
use millstream_core::assignment::{Item, LogEntry, NewItem, Work};
use millstream_core::id::{ItemKey, Name, TenantId, WorkerId};
use millstream_core::time::Timestamp;

use super::people::ItemRow;
use super::settle::View;
use super::tables::Tables;
use super::{Memory, notices, settle};
use crate::Result;
use crate::giving::no_slots;
use crate::item_store::{Imported, ItemCommit, ItemCommitted, ItemRef, ItemStore, LoadedItem, firsts};
use crate::notices::of_items;

#[async_trait::async_trait]
impl ItemStore for Memory {
    async fn import(
        &self,
        tenant: &TenantId,
        queue: &Name,
        items: &[NewItem],
        now: Timestamp,
    ) -> Result<Vec<Imported>> {
        let mut tables = self.tables();
        Ok(items.iter().map(|new| import(&mut tables, tenant, queue, new, now)).collect())
    }

    async fn load_items(&self, wanted: &[ItemRef]) -> Result<Vec<Option<LoadedItem>>> {
        let tables = self.tables();
        let load = |wanted: &ItemRef| match wanted {
            ItemRef::Item(key) => tables.people.loaded(key),
            ItemRef::Assignment(tenant, id) => {
                tables.people.loaded(tables.people.assignments.get(&(tenant.clone(), *id))?)
            }
        };
        Ok(wanted.iter().map(load).collect())
    }

    async fn commit_items(
        &self,
        worker: &WorkerId,
        batch: &[ItemCommit],
        now: Timestamp,
    ) -> Result<Vec<ItemCommitted>> {
        let mut tables = self.tables();
        let verdict = |(commit, is_first): (&ItemCommit, bool)| {
            if is_first {
                return write(&mut tables, worker, commit, now);
            }
            let current = tables.people.items.get(&commit.key).map(|row| row.version);
            ItemCommitted::Conflict { current }
        };
        Ok(firsts(batch).map(verdict).collect())
    }

    async fn purge_items(&self, before: Timestamp, limit: usize) -> Result<u64> {
        let mut tables = self.tables();
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

fn import(tables: &mut Tables, tenant: &TenantId, queue: &Name, new: &NewItem, now: Timestamp) -> Imported {
    let people = &mut tables.people;
    let Some(view) = people.queues.get(&(tenant.clone(), queue.clone())) else { return Imported::NoQueue };
    let key = ItemKey { tenant: tenant.clone(), item: new.id.clone() };
    if let Some(row) = people.items.get(&key) {
        return Imported::beside(&row.work.item, &row.work.payload, queue, new);
    }
    let problems = new.problems(&view.config);
    if !problems.is_empty() {
        return Imported::Refused(problems);
    }
    let item = Item::imported(new, &view.config, now);
    let log = vec![LogEntry::imported(&item)];
    let position = people.position();
    let standing = Some(Standing { urgency: -item.priority, class: item.class, position });
    let work = Work::new(item, new.payload.clone());
    let opening = standing.map(|standing| (tenant.clone(), queue.clone(), standing, key.clone()));
    people.openings.extend(opening);
    people.items.insert(key, ItemRow { work, version: 1, position, standing, log });
    people.count((tenant.clone(), queue.clone(), None, stats::day(now)), &stats::imported(1));
    Imported::Created
}

fn write(tables: &mut Tables, worker: &WorkerId, commit: &ItemCommit, now: Timestamp) -> ItemCommitted {
    match tables.people.write(commit, now) {
        Err(current) => ItemCommitted::Conflict { current },
        Ok(version) => {
            notices::write(tables, of_items([commit]));
            let settled = commit.settlement.as_ref().and_then(|settlement| {
                let batch = std::slice::from_ref(settlement);
                let settled = settle::settle(tables, worker, batch, &no_slots(), now, &View::Current);
                settled.verdicts.into_iter().next()
            });
            ItemCommitted::Done { version, settled }
        }
    }
}
