//! Rows of items: the items, their assignments, openings and logs. Changes are written in
//! [`crate::item_write`].
//!
//! Every write holds the items' rows; assignments, openings and logs belong to them.

use std::collections::{BTreeSet, HashMap};

use millstream_model::id::{ItemKey, Name, PersonId, TenantId};
use millstream_model::raw::RawJson;
use millstream_people::assignment::item::FORMAT;
use millstream_people::assignment::{ItemAggregate, ItemAssignment, ItemLogEntry, QueueItem};
use millstream_store::item_store::LoadedItem;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use crate::decode;
use crate::errors::{PostgresFailure, PostgresResult};

/// Keys as two columns.
pub(crate) fn key_columns<'k>(keys: impl Iterator<Item = &'k ItemKey>) -> (Vec<&'k str>, Vec<&'k str>) {
    keys.map(|key| (key.tenant.as_str(), key.item.as_str())).unzip()
}

pub(crate) fn item_key(row: &PgRow) -> PostgresResult<ItemKey> {
    Ok(ItemKey { tenant: decode::parsed(row, "tenant")?, item: decode::parsed(row, "item")? })
}

/// An item in a format that this build reads.
pub(crate) fn decode_item(row: &PgRow) -> PostgresResult<QueueItem> {
    let item: QueueItem = decode::list(row, "body")?;
    if item.format != FORMAT {
        let format = item.format;
        return Err(PostgresFailure::Undecodable(format!(
            "item has format {format}, this build reads {FORMAT}"
        )));
    }
    Ok(item)
}

pub(crate) fn decode_assignment(body: &str) -> PostgresResult<ItemAssignment> {
    serde_json::from_str(body)
        .map_err(|error| PostgresFailure::Undecodable(format!("an assignment cannot be decoded: {error}")))
}

/// From an item's row with the bodies of its assignments.
pub(crate) fn with_assignments(row: &PgRow) -> PostgresResult<LoadedItem> {
    let mut work = ItemAggregate::new(decode_item(row)?, decode::json(row, "payload")?);
    for body in row.try_get::<Vec<String>, _>("assignments")? {
        let one = decode_assignment(&body)?;
        work.assignments.insert(one.id, one);
    }
    Ok(LoadedItem { key: item_key(row)?, version: row.try_get("version")?, work })
}

/// From the rows of locked items; their assignments are read after that, if they have had any.
pub(crate) async fn load_locked(
    connection: &mut PgConnection,
    rows: &[PgRow],
) -> PostgresResult<Vec<LoadedItem>> {
    const ASSIGNMENTS: &str = "
SELECT a.tenant, a.body FROM unnest($1::text[], $2::text[]) AS k(tenant, item)
CROSS JOIN LATERAL (
    SELECT a.tenant, a.body FROM assignments a WHERE a.item = k.item AND a.tenant = k.tenant OFFSET 0
) a";
    let mut items = Vec::with_capacity(rows.len());
    for row in rows {
        let work = ItemAggregate::new(decode_item(row)?, decode::json(row, "payload")?);
        items.push(LoadedItem { key: item_key(row)?, version: row.try_get("version")?, work });
    }
    let had = items.iter().filter(|loaded| loaded.work.item.entries > 1).map(|loaded| &loaded.key);
    let (tenants, ids) = key_columns(had);
    if tenants.is_empty() {
        return Ok(items);
    }
    let rows = sqlx::query(ASSIGNMENTS).bind(&tenants).bind(&ids).fetch_all(connection).await?;
    let mut assignments: HashMap<ItemKey, Vec<ItemAssignment>> = HashMap::new();
    for row in &rows {
        let one: ItemAssignment = decode::list(row, "body")?;
        let key = ItemKey { tenant: decode::parsed(row, "tenant")?, item: one.item.clone() };
        assignments.entry(key).or_default().push(one);
    }
    for loaded in &mut items {
        let theirs = assignments.remove(&loaded.key).unwrap_or_default();
        loaded.work.assignments = theirs.into_iter().map(|one| (one.id, one)).collect();
    }
    Ok(items)
}

pub(crate) fn text_of<T: serde::Serialize>(value: &T) -> String {
    RawJson::from_value(value).as_str().to_owned()
}

pub(crate) fn count_column(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// An item whose openings enter the queue; at its end, unless the position is known.
pub(crate) struct PlacedItem<'a> {
    pub(crate) key: &'a ItemKey,
    pub(crate) work: &'a ItemAggregate,
    pub(crate) barred: &'a BTreeSet<PersonId>,
    pub(crate) position: Option<i64>,
}

pub(crate) async fn place_openings(
    connection: &mut PgConnection,
    placed: &[PlacedItem<'_>],
) -> PostgresResult<()> {
    const PLACE: &str = "
INSERT INTO openings (tenant, item, queue, set_id, urgency, class, position, needs, barred)
SELECT k.tenant, k.item, k.queue, k.set_id, k.urgency, k.class, coalesce(k.position, nextval('standing')), k.needs,
       ARRAY(SELECT json_array_elements_text(k.barred::json))
FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::int[], $6::smallint[], $7::bigint[], $8::int[],
            $9::text[]) AS k(tenant, item, queue, set_id, urgency, class, position, needs, barred)
ON CONFLICT (item, tenant) DO UPDATE SET
    queue = excluded.queue, set_id = excluded.set_id, urgency = excluded.urgency, class = excluded.class,
    position = excluded.position, needs = excluded.needs, barred = excluded.barred";
    if placed.is_empty() {
        return Ok(());
    }
    let sets: Vec<SetKey> = placed.iter().map(|one| set_key(&one.key.tenant, &one.work.item)).collect();
    let numbers = number_skill_sets(connection, &sets).await?;
    let number = |set: &SetKey| numbers.get(set).copied().unwrap_or_default();
    let (tenants, ids) = key_columns(placed.iter().map(|one| one.key));
    let items = || placed.iter().map(|one| &one.work.item);
    sqlx::query(PLACE)
        .bind(&tenants)
        .bind(&ids)
        .bind(items().map(|item| item.queue.as_str()).collect::<Vec<_>>())
        .bind(sets.iter().map(number).collect::<Vec<i64>>())
        .bind(items().map(|item| -item.priority).collect::<Vec<_>>())
        .bind(items().map(|item| item.class.as_number()).collect::<Vec<_>>())
        .bind(placed.iter().map(|one| one.position).collect::<Vec<_>>())
        .bind(placed.iter().map(|one| count_column(one.work.opening_count())).collect::<Vec<_>>())
        .bind(placed.iter().map(|one| text_of(one.barred)).collect::<Vec<_>>())
        .execute(connection)
        .await?;
    Ok(())
}

/// Tenant, queue and the skills as JSON.
pub(crate) type SetKey = (TenantId, Name, String);

pub(crate) fn set_key(tenant: &TenantId, item: &QueueItem) -> SetKey {
    (tenant.clone(), item.queue.clone(), RawJson::from_value(&item.skills).as_str().to_owned())
}

/// The numbers of skill sets; new sets get one under the lock of the row of their queue.
pub(crate) async fn number_skill_sets(
    connection: &mut PgConnection,
    sets: &[SetKey],
) -> PostgresResult<HashMap<SetKey, i64>> {
    const LOCK: &str = "
SELECT 1 FROM unnest($1::text[], $2::text[]) AS k(tenant, queue)
JOIN queues q ON q.tenant = k.tenant AND q.queue = k.queue
ORDER BY q.tenant, q.queue FOR NO KEY UPDATE OF q";
    const ADD: &str = "
INSERT INTO skill_sets (tenant, queue, set_id, skills)
SELECT $1, $2, coalesce(max(s.set_id), 0) + 1, $3 FROM skill_sets s WHERE s.tenant = $1 AND s.queue = $2";
    let wanted: BTreeSet<&SetKey> = sets.iter().collect();
    let found = find_sets(connection, &wanted).await?;
    let missing: BTreeSet<&SetKey> = wanted.iter().copied().filter(|set| !found.contains_key(*set)).collect();
    if missing.is_empty() {
        return Ok(found);
    }
    let queues: BTreeSet<(&str, &str)> =
        missing.iter().map(|(tenant, queue, _)| (tenant.as_str(), queue.as_str())).collect();
    let (tenants, names): (Vec<&str>, Vec<&str>) = queues.into_iter().unzip();
    sqlx::query(LOCK).bind(&tenants).bind(&names).fetch_all(&mut *connection).await?;
    // A concurrent transaction may have inserted it first.
    let there = find_sets(connection, &missing).await?;
    for (tenant, queue, skills) in missing.into_iter().filter(|set| !there.contains_key(*set)) {
        sqlx::query(ADD)
            .bind(tenant.as_str())
            .bind(queue.as_str())
            .bind(skills)
            .execute(&mut *connection)
            .await?;
    }
    find_sets(connection, &wanted).await
}

async fn find_sets(
    connection: &mut PgConnection,
    sets: &BTreeSet<&SetKey>,
) -> PostgresResult<HashMap<SetKey, i64>> {
    const FIND: &str = "
SELECT s.tenant, s.queue, s.skills, s.set_id
FROM unnest($1::text[], $2::text[], $3::text[]) AS k(tenant, queue, skills)
CROSS JOIN LATERAL (
    SELECT * FROM skill_sets s
    WHERE s.queue = k.queue AND s.tenant = k.tenant AND md5(s.skills) = md5(k.skills) AND s.skills = k.skills
    OFFSET 0
) s";
    let rows = sqlx::query(FIND)
        .bind(sets.iter().map(|(tenant, _, _)| tenant.as_str()).collect::<Vec<_>>())
        .bind(sets.iter().map(|(_, queue, _)| queue.as_str()).collect::<Vec<_>>())
        .bind(sets.iter().map(|(_, _, skills)| skills.as_str()).collect::<Vec<_>>())
        .fetch_all(connection)
        .await?;
    rows.iter()
        .map(|row| {
            let key = (decode::parsed(row, "tenant")?, decode::parsed(row, "queue")?, row.try_get("skills")?);
            Ok((key, row.try_get("set_id")?))
        })
        .collect()
}

pub(crate) async fn write_log(
    connection: &mut PgConnection,
    log: &[(&ItemKey, &ItemLogEntry)],
) -> PostgresResult<()> {
    const WRITE: &str = "
INSERT INTO item_log (tenant, item, no, at, body)
SELECT k.* FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::text[]) AS k";
    if log.is_empty() {
        return Ok(());
    }
    let (tenants, ids) = key_columns(log.iter().map(|(key, _)| *key));
    sqlx::query(WRITE)
        .bind(&tenants)
        .bind(&ids)
        .bind(log.iter().map(|(_, entry)| i64::from(entry.no)).collect::<Vec<_>>())
        .bind(log.iter().map(|(_, entry)| entry.at.as_millis()).collect::<Vec<_>>())
        .bind(log.iter().map(|(_, entry)| text_of(entry)).collect::<Vec<_>>())
        .execute(connection)
        .await?;
    Ok(())
}
