//! Items of people's work: imported, loaded, changed, and removed by retention.
//!
//! Locks: items in the order of their keys, then the locks of settling, then totals.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use async_trait::async_trait;
use millstream_model::id::{AssignmentId, ItemKey, Name, TenantId, WorkerId};
use millstream_model::problem::ValidationProblem;
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_people::assignment::limits::MAX_SKILL_SETS;
use millstream_people::assignment::{ItemAggregate, ItemLogEntry, NewQueueItem, QueueItem, stats};
use millstream_store::StoreResult;
use millstream_store::action_store::Settlement;
use millstream_store::item_store::{
    ImportVerdict, ItemCommit, ItemCommitVerdict, ItemRef, ItemStore, LoadedItem, mark_first_commits,
};
use millstream_store::notices::of_items;
use millstream_store::opening_selection::grant_without_slots;
use millstream_store::queue_store::QueueView;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres, Row};
use uuid::Uuid;

use crate::connect::PostgresStore;
use crate::errors::PostgresResult;
use crate::item_rows::{self, PlacedItem, item_key, key_columns};
use crate::queue_store::read_queues;
use crate::settle::settle_within;
use crate::{decode, item_write, notices, totals};

#[async_trait]
impl ItemStore for PostgresStore {
    async fn import_items(
        &self,
        tenant: &TenantId,
        queue: &Name,
        items: &[NewQueueItem],
        now: Timestamp,
    ) -> StoreResult<Vec<ImportVerdict>> {
        if items.is_empty() {
            return Ok(Vec::new());
        }
        self.with_retries(|| self.import_once(tenant, queue, items, now)).await
    }

    async fn load_items(&self, wanted: &[ItemRef]) -> StoreResult<Vec<Option<LoadedItem>>> {
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        self.without_retries(async {
            let wish = ItemQuery::of(wanted);
            wish.decode_rows(&self.warm.fetch_rows(wish.build_query()).await?)
        })
        .await
    }

    async fn commit_items(
        &self,
        worker: &WorkerId,
        batch: &[ItemCommit],
        now: Timestamp,
    ) -> StoreResult<Vec<ItemCommitVerdict>> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        if item_write::are_plain(batch)
            && self.with_retries(|| item_write::write_alone(&self.warm, batch, now)).await?
        {
            let done =
                |commit: &ItemCommit| ItemCommitVerdict::Done { version: commit.expected + 1, settled: None };
            return Ok(batch.iter().map(done).collect());
        }
        self.with_retries(|| self.commit_items_once(worker, batch, now)).await
    }

    async fn purge_items(&self, before: Timestamp, limit: usize) -> StoreResult<u64> {
        const FIND: &str = "
SELECT i.tenant, i.item FROM items i
WHERE i.ended_at < $1 AND NOT EXISTS (
    SELECT 1 FROM assignments a WHERE a.item = i.item AND a.tenant = i.tenant AND a.is_open)
ORDER BY i.ended_at LIMIT $2 FOR UPDATE OF i SKIP LOCKED";
        const OPEN: &str = "
SELECT a.tenant, a.item FROM unnest($1::text[], $2::text[]) AS k(tenant, item)
JOIN assignments a ON a.item = k.item AND a.tenant = k.tenant AND a.is_open";
        const REMOVE: [&str; 3] = [
            "
DELETE FROM assignments a USING unnest($1::text[], $2::text[]) AS k(tenant, item)
WHERE a.item = k.item AND a.tenant = k.tenant",
            "
DELETE FROM item_log l USING unnest($1::text[], $2::text[]) AS k(tenant, item)
WHERE l.item = k.item AND l.tenant = k.tenant",
            "
DELETE FROM items i USING unnest($1::text[], $2::text[]) AS k(tenant, item)
WHERE i.item = k.item AND i.tenant = k.tenant",
        ];
        self.with_retries(|| async {
            let mut held = self.warm.hold_pooled().await?;
            let mut transaction = held.begin().await?;
            let rows = sqlx::query(FIND)
                .bind(before.as_millis())
                .bind(i64::try_from(limit).unwrap_or(i64::MAX))
                .fetch_all(&mut *transaction)
                .await?;
            let mut gone = rows.iter().map(item_key).collect::<PostgresResult<BTreeSet<_>>>()?;
            // A correction may have been requested before the items were locked.
            let (tenants, ids) = key_columns(gone.iter());
            let open = sqlx::query(OPEN).bind(&tenants).bind(&ids).fetch_all(&mut *transaction).await?;
            for row in &open {
                gone.remove(&item_key(row)?);
            }
            let (tenants, ids) = key_columns(gone.iter());
            for statement in REMOVE {
                sqlx::query(statement).bind(&tenants).bind(&ids).execute(&mut *transaction).await?;
            }
            transaction.commit().await?;
            Ok(gone.len() as u64)
        })
        .await
    }
}

/// Requested items and assignments.
pub(crate) struct ItemQuery<'a> {
    wanted: &'a [ItemRef],
    tenants: Vec<&'a str>,
    items: Vec<&'a str>,
    assignment_tenants: Vec<&'a str>,
    assignments: Vec<Uuid>,
}

impl<'a> ItemQuery<'a> {
    pub(crate) fn of(wanted: &'a [ItemRef]) -> Self {
        let mut wish = Self {
            wanted,
            tenants: Vec::new(),
            items: Vec::new(),
            assignment_tenants: Vec::new(),
            assignments: Vec::new(),
        };
        for one in wanted {
            match one {
                ItemRef::Item(key) => {
                    wish.tenants.push(key.tenant.as_str());
                    wish.items.push(key.item.as_str());
                }
                ItemRef::Assignment(tenant, id) => {
                    wish.assignment_tenants.push(tenant.as_str());
                    wish.assignments.push(id.0);
                }
            }
        }
        wish
    }

    /// One statement for the items and their assignments: one version covers both.
    pub(crate) fn build_query(&self) -> Query<'_, Postgres, PgArguments> {
        const READ: &str = "
SELECT i.tenant, i.item, i.version, i.body, i.payload,
       ARRAY(SELECT a.body FROM assignments a WHERE a.item = i.item AND a.tenant = i.tenant) AS assignments
FROM (
    SELECT u.tenant, u.item FROM unnest($1::text[], $2::text[]) AS u(tenant, item)
    UNION
    SELECT a.tenant, a.item FROM unnest($3::text[], $4::uuid[]) AS u(tenant, assignment)
    CROSS JOIN LATERAL (
        SELECT a.tenant, a.item FROM assignments a
        WHERE a.assignment = u.assignment AND a.tenant = u.tenant OFFSET 0) a
) k
CROSS JOIN LATERAL (
    SELECT i.* FROM items i WHERE i.item = k.item AND i.tenant = k.tenant OFFSET 0) i";
        sqlx::query(READ)
            .bind(&self.tenants)
            .bind(&self.items)
            .bind(&self.assignment_tenants)
            .bind(&self.assignments)
    }

    /// In the order asked.
    pub(crate) fn decode_rows(&self, rows: &[PgRow]) -> PostgresResult<Vec<Option<LoadedItem>>> {
        let mut found: HashMap<ItemKey, LoadedItem> = HashMap::with_capacity(rows.len());
        let mut whose: HashMap<(TenantId, AssignmentId), ItemKey> = HashMap::new();
        for row in rows {
            let loaded = item_rows::with_assignments(row)?;
            let ids = loaded.work.assignments.keys();
            whose.extend(ids.map(|id| ((loaded.key.tenant.clone(), *id), loaded.key.clone())));
            found.insert(loaded.key.clone(), loaded);
        }
        let grant = |wanted: &ItemRef| match wanted {
            ItemRef::Item(key) => found.get(key).cloned(),
            ItemRef::Assignment(tenant, id) => found.get(whose.get(&(tenant.clone(), *id))?).cloned(),
        };
        Ok(self.wanted.iter().map(grant).collect())
    }
}

impl PostgresStore {
    async fn commit_items_once(
        &self,
        worker: &WorkerId,
        batch: &[ItemCommit],
        now: Timestamp,
    ) -> PostgresResult<Vec<ItemCommitVerdict>> {
        const LOCK: &str = "
SELECT i.tenant, i.item, i.version FROM unnest($1::text[], $2::text[]) AS k(tenant, item)
JOIN items i ON i.item = k.item AND i.tenant = k.tenant
ORDER BY i.item, i.tenant FOR NO KEY UPDATE OF i";
        let mut held = self.warm.hold_connection().await?;
        let mut transaction = held.begin().await?;
        let unique: BTreeSet<&ItemKey> = batch.iter().map(|commit| &commit.key).collect();
        let (tenants, ids) = key_columns(unique.into_iter());
        let rows = sqlx::query(LOCK).bind(&tenants).bind(&ids).fetch_all(&mut *transaction).await?;
        let mut versions: HashMap<ItemKey, i64> = HashMap::new();
        for row in &rows {
            versions.insert(item_key(row)?, row.try_get("version")?);
        }
        let (mut verdicts, mut good) = (Vec::with_capacity(batch.len()), Vec::new());
        for (commit, is_first) in mark_first_commits(batch) {
            verdicts.push(match versions.get_mut(&commit.key) {
                Some(version) if *version == commit.expected && is_first => {
                    *version += 1;
                    good.push(commit);
                    ItemCommitVerdict::Done { version: *version, settled: None }
                }
                Some(version) => ItemCommitVerdict::Conflict { current: Some(*version) },
                None => ItemCommitVerdict::Conflict { current: None },
            });
        }
        if good.is_empty() {
            transaction.rollback().await?;
            held.return_warm();
            return Ok(verdicts);
        }
        let settlements: Vec<Settlement> =
            good.iter().filter_map(|commit| commit.settlement.clone()).collect();
        if !settlements.is_empty() {
            let done =
                settle_within(&mut transaction, worker, &settlements, &grant_without_slots(), now).await?;
            let mut done = done.verdicts.into_iter();
            for (commit, verdict) in batch.iter().zip(&mut verdicts) {
                if let ItemCommitVerdict::Done { settled, .. } = verdict
                    && commit.settlement.is_some()
                {
                    *settled = done.next();
                }
            }
        }
        notices::write(&mut transaction, &of_items(good.iter().copied())).await?;
        let sums = totals::of(good.iter().copied());
        item_write::write(&mut transaction, &good, &sums, now).await?;
        transaction.commit().await?;
        held.return_warm();
        Ok(verdicts)
    }

    async fn import_once(
        &self,
        tenant: &TenantId,
        queue: &Name,
        items: &[NewQueueItem],
        now: Timestamp,
    ) -> PostgresResult<Vec<ImportVerdict>> {
        let mut held = self.warm.hold_pooled().await?;
        let mut transaction = held.begin().await?;
        let found = read_queues(&mut transaction, &self.configs, &[(tenant.clone(), queue.clone())]).await?;
        let Some((_, view)) = found.into_iter().next() else {
            return Ok(vec![ImportVerdict::NoQueue; items.len()]);
        };
        let mut importing =
            ItemImporter { tenant, queue: &view, now, works: BTreeMap::new(), verdicts: Vec::new() };
        importing.read_items(items);
        importing.refuse_sets(&mut transaction, items).await?;
        let positions = importing.insert_new(&mut transaction).await?;
        importing.place_new(&mut transaction, &positions).await?;
        importing.compare_existing(&mut transaction, items, &positions).await?;
        transaction.commit().await?;
        Ok(importing.verdicts)
    }
}

/// A batch being imported into a queue.
struct ItemImporter<'a> {
    tenant: &'a TenantId,
    queue: &'a QueueView,
    now: Timestamp,
    /// By their place in the batch.
    works: BTreeMap<usize, (ItemKey, ItemAggregate)>,
    verdicts: Vec<ImportVerdict>,
}

impl ItemImporter<'_> {
    /// Refuses invalid items; compares duplicates with the first.
    fn read_items(&mut self, items: &[NewQueueItem]) {
        let mut first: HashMap<&str, usize> = HashMap::new();
        for (at, new) in items.iter().enumerate() {
            if let Some(before) = first.get(new.id.as_str()) {
                let there = self.works.get(before).map(|(_, work)| work);
                let name = &self.queue.config.name;
                let beside = there
                    .map(|work| ImportVerdict::compare_with_existing(&work.item, &work.payload, name, new));
                self.verdicts.push(beside.unwrap_or(ImportVerdict::Taken));
                continue;
            }
            let problems = new.find_problems(&self.queue.config);
            if !problems.is_empty() {
                self.verdicts.push(ImportVerdict::Refused(problems));
                continue;
            }
            first.insert(new.id.as_str(), at);
            let item = QueueItem::from_import(new, &self.queue.config, self.now);
            let key = ItemKey { tenant: self.tenant.clone(), item: new.id.clone() };
            self.works.insert(at, (key, ItemAggregate::new(item, new.payload.clone())));
            self.verdicts.push(ImportVerdict::Created);
        }
    }

    async fn refuse_sets(
        &mut self,
        connection: &mut PgConnection,
        items: &[NewQueueItem],
    ) -> PostgresResult<()> {
        let sets: Vec<_> =
            self.works.values().map(|(_, work)| item_rows::set_key(self.tenant, &work.item)).collect();
        let numbers = item_rows::number_skill_sets(connection, &sets).await?;
        let most = i64::try_from(MAX_SKILL_SETS).unwrap_or(i64::MAX);
        let beyond: Vec<usize> = self
            .works
            .iter()
            .zip(&sets)
            .filter(|(_, set)| numbers.get(*set).is_none_or(|number| *number > most))
            .map(|((at, _), _)| *at)
            .collect();
        for at in beyond {
            self.works.remove(&at);
            let message = format!(
                "the items of this queue require more than {MAX_SKILL_SETS} different sets of skills"
            );
            if let Some(verdict) = self.verdicts.get_mut(at).filter(|_| at < items.len()) {
                *verdict = ImportVerdict::Refused(vec![ValidationProblem::new("skills", message)]);
            }
        }
        Ok(())
    }

    /// Returns the positions of the new ones.
    async fn insert_new(&self, connection: &mut PgConnection) -> PostgresResult<HashMap<String, i64>> {
        const INSERT: &str = "
INSERT INTO items (tenant, item, queue, status, version, position, due_at, ended_at, body, payload)
SELECT $1, k.item, $2, 'open', 1, nextval('standing'), k.due_at, NULL, k.body, k.payload
FROM unnest($3::text[], $4::bigint[], $5::text[], $6::text[]) AS k(item, due_at, body, payload)
ON CONFLICT (item, tenant) DO NOTHING
RETURNING item, position";
        let works = || self.works.values();
        let rows = sqlx::query(INSERT)
            .bind(self.tenant.as_str())
            .bind(self.queue.config.name.as_str())
            .bind(works().map(|(key, _)| key.item.as_str()).collect::<Vec<_>>())
            .bind(works().map(|(_, work)| work.item.due_at.map(Timestamp::as_millis)).collect::<Vec<_>>())
            .bind(
                works()
                    .map(|(_, work)| RawJson::from_value(&work.item).as_str().to_owned())
                    .collect::<Vec<_>>(),
            )
            .bind(works().map(|(_, work)| work.payload.as_str()).collect::<Vec<_>>())
            .fetch_all(connection)
            .await?;
        rows.iter().map(|row| Ok((row.try_get("item")?, row.try_get("position")?))).collect()
    }

    async fn place_new(
        &self,
        connection: &mut PgConnection,
        positions: &HashMap<String, i64>,
    ) -> PostgresResult<()> {
        let nobody = BTreeSet::new();
        let added = || self.works.values().filter(|(key, _)| positions.contains_key(key.item.as_str()));
        let placed: Vec<_> = added()
            .map(|(key, work)| {
                let position = positions.get(key.item.as_str()).copied();
                PlacedItem { key, work, barred: &nobody, position }
            })
            .collect();
        item_rows::place_openings(connection, &placed).await?;
        let log: Vec<(&ItemKey, ItemLogEntry)> =
            added().map(|(key, work)| (key, ItemLogEntry::of_import(&work.item))).collect();
        item_rows::write_log(connection, &log.iter().map(|(key, entry)| (*key, entry)).collect::<Vec<_>>())
            .await?;
        if placed.is_empty() {
            return Ok(());
        }
        let key = (self.tenant.clone(), self.queue.config.name.clone(), None);
        let sums = stats::totals_of_import(i64::try_from(placed.len()).unwrap_or(i64::MAX));
        totals::add(connection, &[(key, sums)].into(), self.now).await
    }

    /// An existing item is a repeat, or a different item.
    async fn compare_existing(
        &mut self,
        connection: &mut PgConnection,
        items: &[NewQueueItem],
        positions: &HashMap<String, i64>,
    ) -> PostgresResult<()> {
        const READ: &str = "
SELECT i.item, i.body, i.payload FROM unnest($2::text[]) AS k(item)
JOIN items i ON i.item = k.item AND i.tenant = $1";
        let there: Vec<&str> = self
            .works
            .values()
            .map(|(key, _)| key.item.as_str())
            .filter(|item| !positions.contains_key(*item))
            .collect();
        if there.is_empty() {
            return Ok(());
        }
        let rows = sqlx::query(READ).bind(self.tenant.as_str()).bind(&there).fetch_all(connection).await?;
        let mut found = HashMap::new();
        for row in &rows {
            found.insert(
                row.try_get::<String, _>("item")?,
                (item_rows::decode_item(row)?, decode::json(row, "payload")?),
            );
        }
        for (at, new) in items.iter().enumerate() {
            let Some((item, payload)) = found.get(new.id.as_str()) else { continue };
            if let Some(verdict) = self.verdicts.get_mut(at).filter(|_| self.works.contains_key(&at)) {
                *verdict = ImportVerdict::compare_with_existing(item, payload, &self.queue.config.name, new);
            }
        }
        Ok(())
    }
}
