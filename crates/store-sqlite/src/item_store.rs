//! Items of people's work: imported, loaded, changed, and removed by retention.

use std::collections::BTreeSet;

use millstream_model::id::{ItemKey, Name, TenantId, WorkerId};
use millstream_model::problem::ValidationProblem;
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_people::assignment::limits::MAX_SKILL_SETS;
use millstream_people::assignment::{ItemAggregate, ItemLogEntry, NewQueueItem, QueueItem, stats};
use millstream_store::StoreResult;
use millstream_store::item_store::{
    ImportVerdict, ItemCommit, ItemCommitVerdict, ItemRef, ItemStore, LoadedItem, mark_first_commits,
};
use millstream_store::notices::of_items;
use millstream_store::opening_selection::grant_without_slots;
use millstream_store::queue_store::QueueView;
use rusqlite::Connection;

use crate::connect::SqliteStore;
use crate::decode::SqliteFields;
use crate::errors::SqliteResult;
use crate::item_rows::{
    add_totals, number_skill_set, place_openings, read_item, take_position, write_item, write_log,
};
use crate::queue_store::read_queue;
use crate::settle::settle_batch;
use crate::{notices, param};

#[async_trait::async_trait]
impl ItemStore for SqliteStore {
    async fn import_items(
        &self,
        tenant: &TenantId,
        queue: &Name,
        items: &[NewQueueItem],
        now: Timestamp,
    ) -> StoreResult<Vec<ImportVerdict>> {
        let (tenant, queue, items) = (tenant.clone(), queue.clone(), items.to_vec());
        self.write_transaction(move |connection| {
            let Some(view) = read_queue(connection, &tenant, &queue)? else {
                return Ok(vec![ImportVerdict::NoQueue; items.len()]);
            };
            let mut verdicts = Vec::with_capacity(items.len());
            for new in &items {
                verdicts.push(import_item(connection, &tenant, &view, new, now)?);
            }
            let created = verdicts.iter().filter(|verdict| **verdict == ImportVerdict::Created).count();
            let added = stats::totals_of_import(param::limit(created));
            if created > 0 {
                add_totals(connection, &tenant, &queue, None, now, &added)?;
            }
            Ok(verdicts)
        })
        .await
    }

    async fn load_items(&self, wanted: &[ItemRef]) -> StoreResult<Vec<Option<LoadedItem>>> {
        let wanted = wanted.to_vec();
        self.read_transaction(move |connection| {
            wanted.iter().map(|wanted| load_item(connection, wanted)).collect()
        })
        .await
    }

    async fn commit_items(
        &self,
        worker: &WorkerId,
        batch: &[ItemCommit],
        now: Timestamp,
    ) -> StoreResult<Vec<ItemCommitVerdict>> {
        let (worker, batch) = (worker.clone(), batch.to_vec());
        self.write_transaction(move |connection| {
            let verdict = |(commit, is_first): (&ItemCommit, bool)| {
                if is_first {
                    return commit_one(connection, &worker, commit, now);
                }
                let current = read_item(connection, &commit.key)?.map(|there| there.version);
                Ok(ItemCommitVerdict::Conflict { current })
            };
            mark_first_commits(&batch).map(verdict).collect()
        })
        .await
    }

    async fn purge_items(&self, before: Timestamp, limit: usize) -> StoreResult<u64> {
        const FIND: &str = "
            SELECT i.tenant, i.item FROM items AS i
            WHERE i.ended_at < ?1 AND NOT EXISTS (
                SELECT 1 FROM assignments AS a WHERE a.tenant = i.tenant AND a.item = i.item AND a.is_open)
            ORDER BY i.ended_at LIMIT ?2";
        const REMOVE: [&str; 3] = [
            "DELETE FROM assignments WHERE tenant = ?1 AND item = ?2",
            "DELETE FROM item_log WHERE tenant = ?1 AND item = ?2",
            "DELETE FROM items WHERE tenant = ?1 AND item = ?2",
        ];
        self.write_transaction(move |connection| {
            let mut find = connection.prepare_cached(FIND)?;
            let mut rows = find.query((before.as_millis(), param::limit(limit)))?;
            let mut gone = Vec::new();
            while let Some(row) = rows.next()? {
                gone.push(SqliteFields(row).item_key()?);
            }
            for statement in REMOVE {
                let mut remove = connection.prepare_cached(statement)?;
                for key in &gone {
                    remove.execute((key.tenant.as_str(), key.item.as_str()))?;
                }
            }
            Ok(gone.len() as u64)
        })
        .await
    }
}

fn load_item(connection: &Connection, wanted: &ItemRef) -> SqliteResult<Option<LoadedItem>> {
    const WHOSE: &str = "SELECT tenant, item FROM assignments WHERE tenant = ?1 AND assignment = ?2";
    match wanted {
        ItemRef::Item(key) => read_item(connection, key),
        ItemRef::Assignment(tenant, id) => {
            let mut read = connection.prepare_cached(WHOSE)?;
            let mut rows = read.query((tenant.as_str(), id.0.as_bytes()))?;
            let Some(row) = rows.next()? else { return Ok(None) };
            read_item(connection, &SqliteFields(row).item_key()?)
        }
    }
}

fn commit_one(
    connection: &Connection,
    worker: &WorkerId,
    commit: &ItemCommit,
    now: Timestamp,
) -> SqliteResult<ItemCommitVerdict> {
    let version = match write_item(connection, commit, now)? {
        Ok(version) => version,
        Err(current) => return Ok(ItemCommitVerdict::Conflict { current }),
    };
    notices::write(connection, &of_items([commit]))?;
    let settled = match &commit.settlement {
        Some(settlement) => {
            let batch = std::slice::from_ref(settlement);
            settle_batch(connection, worker, batch, &grant_without_slots(), now)?.verdicts.into_iter().next()
        }
        None => None,
    };
    Ok(ItemCommitVerdict::Done { version, settled })
}

fn import_item(
    connection: &Connection,
    tenant: &TenantId,
    queue: &QueueView,
    new: &NewQueueItem,
    now: Timestamp,
) -> SqliteResult<ImportVerdict> {
    const IMPORT: &str = "
        INSERT INTO items (tenant, item, queue, status, version, position, due_at, ended_at, body, payload)
        VALUES (?1, ?2, ?3, ?4, 1, ?5, ?6, NULL, ?7, ?8)";
    let key = ItemKey { tenant: tenant.clone(), item: new.id.clone() };
    if let Some(there) = read_item(connection, &key)? {
        return Ok(ImportVerdict::compare_with_existing(
            &there.work.item,
            &there.work.payload,
            &queue.config.name,
            new,
        ));
    }
    let mut problems = new.find_problems(&queue.config);
    let item = QueueItem::from_import(new, &queue.config, now);
    if problems.is_empty()
        && number_skill_set(connection, tenant, &item.queue, &item.skills)? > param::limit(MAX_SKILL_SETS)
    {
        let message =
            format!("the items of this queue require more than {MAX_SKILL_SETS} different sets of skills");
        problems.push(ValidationProblem::new("skills", message));
    }
    if !problems.is_empty() {
        return Ok(ImportVerdict::Refused(problems));
    }
    let position = take_position(connection)?;
    connection.prepare_cached(IMPORT)?.execute((
        tenant.as_str(),
        key.item.as_str(),
        item.queue.as_str(),
        item.status.as_str(),
        position,
        item.due_at.map(Timestamp::as_millis),
        RawJson::from_value(&item).as_str(),
        new.payload.as_str(),
    ))?;
    write_log(connection, &key, &[ItemLogEntry::of_import(&item)])?;
    place_openings(
        connection,
        &key,
        &ItemAggregate::new(item, new.payload.clone()),
        &BTreeSet::new(),
        position,
    )?;
    Ok(ImportVerdict::Created)
}
