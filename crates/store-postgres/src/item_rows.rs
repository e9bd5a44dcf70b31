//! The rows of items: themselves, their assignments, openings, logs, and the sums that they add to.
//!
//! Whoever writes here holds the items' rows; assignments, openings and logs belong to them. Sums come last, in the
//! order of their keys: they are the rows that people share with themselves alone.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use millstream_core::assignment::item::FORMAT;
use millstream_core::assignment::next::OpeningChange;
use millstream_core::assignment::stats::{self, Totals};
use millstream_core::assignment::{Assignment, Item, LogEntry, Work};
use millstream_core::id::{ItemKey, Name, PersonId, TenantId};
use millstream_core::raw::RawJson;
use millstream_core::time::Timestamp;
use millstream_store::item_store::{ItemCommit, LoadedItem};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use crate::decode;
use crate::errors::{Attempt, Failure};

/// Keys as two columns.
pub(crate) fn key_columns<'k>(keys: impl Iterator<Item = &'k ItemKey>) -> (Vec<&'k str>, Vec<&'k str>) {
    keys.map(|key| (key.tenant.as_str(), key.item.as_str())).unzip()
}

pub(crate) fn item_key(row: &PgRow) -> Attempt<ItemKey> {
    Ok(ItemKey { tenant: decode::parsed(row, "tenant")?, item: decode::parsed(row, "item")? })
}

/// An item of a format that this build reads.
pub(crate) fn item(row: &PgRow) -> Attempt<Item> {
    let item: Item = decode::list(row, "body")?;
    if item.format != FORMAT {
        let format = item.format;
        return Err(Failure::Undecodable(format!("item has format {format}, this build reads {FORMAT}")));
    }
    Ok(item)
}

pub(crate) fn assignment(body: &str) -> Attempt<Assignment> {
    serde_json::from_str(body)
        .map_err(|error| Failure::Undecodable(format!("an assignment cannot be read: {error}")))
}

/// From a row of an item that has the bodies of its assignments.
pub(crate) fn with_assignments(row: &PgRow) -> Attempt<LoadedItem> {
    let mut work = Work::new(item(row)?, decode::json(row, "payload")?);
    for body in row.try_get::<Vec<String>, _>("assignments")? {
        let one = assignment(&body)?;
        work.assignments.insert(one.id, one);
    }
    Ok(LoadedItem { key: item_key(row)?, version: row.try_get("version")?, work })
}

/// From the rows of items that are held; their assignments are read after that, if they have had any.
pub(crate) async fn loaded(connection: &mut PgConnection, rows: &[PgRow]) -> Attempt<Vec<LoadedItem>> {
    const ASSIGNMENTS: &str = "
SELECT a.tenant, a.body FROM unnest($1::text[], $2::text[]) AS k(tenant, item)
CROSS JOIN LATERAL (
    SELECT a.tenant, a.body FROM assignments a WHERE a.item = k.item AND a.tenant = k.tenant OFFSET 0
) a";
    let mut items = Vec::with_capacity(rows.len());
    for row in rows {
        let work = Work::new(item(row)?, decode::json(row, "payload")?);
        items.push(LoadedItem { key: item_key(row)?, version: row.try_get("version")?, work });
    }
    let had = items.iter().filter(|loaded| loaded.work.item.entries > 1).map(|loaded| &loaded.key);
    let (tenants, ids) = key_columns(had);
    if tenants.is_empty() {
        return Ok(items);
    }
    let rows = sqlx::query(ASSIGNMENTS).bind(&tenants).bind(&ids).fetch_all(connection).await?;
    let mut assignments: HashMap<ItemKey, Vec<Assignment>> = HashMap::new();
    for row in &rows {
        let one: Assignment = decode::list(row, "body")?;
        let key = ItemKey { tenant: decode::parsed(row, "tenant")?, item: one.item.clone() };
        assignments.entry(key).or_default().push(one);
    }
    for loaded in &mut items {
        let theirs = assignments.remove(&loaded.key).unwrap_or_default();
        loaded.work.assignments = theirs.into_iter().map(|one| (one.id, one)).collect();
    }
    Ok(items)
}

/// Writes changes of items whose rows are held and have the versions that are expected, each item once. Sums are
/// written apart, when all items are: see [`sums_of`].
pub(crate) async fn write_items(connection: &mut PgConnection, commits: &[&ItemCommit]) -> Attempt<()> {
    // All of it in one statement: what hangs on an item is held with its row.
    const WRITE: &str = "
WITH closed AS (
    DELETE FROM openings o USING unnest($8::text[], $9::text[]) AS k(tenant, item)
    WHERE o.item = k.item AND o.tenant = k.tenant
), taken AS (
    UPDATE openings o
    SET needs = k.needs, barred = ARRAY(SELECT json_array_elements_text(k.barred::json))
    FROM unnest($10::text[], $11::text[], $12::int[], $13::text[]) AS k(tenant, item, needs, barred)
    WHERE o.item = k.item AND o.tenant = k.tenant
), given AS (
    INSERT INTO assignments (tenant, assignment, item, person, queue, status, is_open, due_at, body)
    SELECT k.* FROM unnest($14::text[], $15::uuid[], $16::text[], $17::text[], $18::text[], $19::text[],
                           $20::boolean[], $21::bigint[], $22::text[]) AS k
    ON CONFLICT (assignment, tenant) DO UPDATE SET
        status = excluded.status, is_open = excluded.is_open, due_at = excluded.due_at, body = excluded.body
), logged AS (
    INSERT INTO item_log (tenant, item, no, at, body)
    SELECT k.* FROM unnest($23::text[], $24::text[], $25::bigint[], $26::bigint[], $27::text[]) AS k
)
UPDATE items i
SET queue = k.queue, status = k.status, version = i.version + 1, due_at = k.due_at, ended_at = k.ended_at,
    body = k.body
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::text[])
    AS k(tenant, item, queue, status, due_at, ended_at, body)
WHERE i.item = k.item AND i.tenant = k.tenant";
    if commits.is_empty() {
        return Ok(());
    }
    let which = |wanted: OpeningChange| commits.iter().filter(move |one| one.change.opening.change == wanted);
    let openings = || which(OpeningChange::Update).map(|commit| &commit.change.opening);
    let changed = || {
        commits.iter().flat_map(|commit| {
            let work = &commit.change.work;
            let changed = commit.change.changed.iter().filter_map(|id| work.assignments.get(id));
            changed.map(|one| (&commit.key.tenant, one))
        })
    };
    let log = || commits.iter().flat_map(|commit| commit.change.log.iter().map(|entry| (&commit.key, entry)));
    let items = || commits.iter().map(|commit| &commit.change.work.item);
    let (tenants, ids) = key_columns(commits.iter().map(|commit| &commit.key));
    let closed = key_columns(which(OpeningChange::Close).map(|commit| &commit.key));
    let taken = key_columns(which(OpeningChange::Update).map(|commit| &commit.key));
    let logged = key_columns(log().map(|(key, _)| key));
    sqlx::query(WRITE)
        .bind(&tenants)
        .bind(&ids)
        .bind(items().map(|item| item.queue.as_str()).collect::<Vec<_>>())
        .bind(items().map(|item| item.status.as_str()).collect::<Vec<_>>())
        .bind(items().map(|item| item.due_at.map(Timestamp::as_millis)).collect::<Vec<_>>())
        .bind(items().map(|item| item.ended_at.map(Timestamp::as_millis)).collect::<Vec<_>>())
        .bind(items().map(text_of).collect::<Vec<_>>())
        .bind(&closed.0)
        .bind(&closed.1)
        .bind(&taken.0)
        .bind(&taken.1)
        .bind(openings().map(|opening| small(opening.needs)).collect::<Vec<_>>())
        .bind(openings().map(|opening| text_of(&opening.barred)).collect::<Vec<_>>())
        .bind(changed().map(|(tenant, _)| tenant.as_str()).collect::<Vec<_>>())
        .bind(changed().map(|(_, one)| one.id.0).collect::<Vec<Uuid>>())
        .bind(changed().map(|(_, one)| one.item.as_str()).collect::<Vec<_>>())
        .bind(changed().map(|(_, one)| one.person.as_str()).collect::<Vec<_>>())
        .bind(changed().map(|(_, one)| one.queue.as_str()).collect::<Vec<_>>())
        .bind(changed().map(|(_, one)| one.status.as_str()).collect::<Vec<_>>())
        .bind(changed().map(|(_, one)| one.status.is_open()).collect::<Vec<_>>())
        .bind(changed().map(|(_, one)| one.deadline.map(Timestamp::as_millis)).collect::<Vec<_>>())
        .bind(changed().map(|(_, one)| text_of(one)).collect::<Vec<_>>())
        .bind(&logged.0)
        .bind(&logged.1)
        .bind(log().map(|(_, entry)| i64::from(entry.no)).collect::<Vec<_>>())
        .bind(log().map(|(_, entry)| entry.at.as_millis()).collect::<Vec<_>>())
        .bind(log().map(|(_, entry)| text_of(entry)).collect::<Vec<_>>())
        .execute(&mut *connection)
        .await?;
    let placed: Vec<_> = which(OpeningChange::Place)
        .map(|commit| Placed {
            key: &commit.key,
            work: &commit.change.work,
            barred: &commit.change.opening.barred,
            position: None,
        })
        .collect();
    place(connection, &placed).await
}

fn text_of<T: serde::Serialize>(value: &T) -> String {
    RawJson::of(value).as_str().to_owned()
}

/// What changes add to the sums.
pub(crate) fn sums_of<'c>(commits: impl IntoIterator<Item = &'c ItemCommit>) -> Sums {
    let mut sums: Sums = BTreeMap::new();
    for commit in commits {
        for ((queue, person), added) in &commit.totals {
            let key = (commit.key.tenant.clone(), queue.clone(), person.clone());
            sums.entry(key).or_default().merge(added);
        }
    }
    sums
}

fn small(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// An item whose openings stand in line from now on; at the end of it, unless its position is known.
pub(crate) struct Placed<'a> {
    pub(crate) key: &'a ItemKey,
    pub(crate) work: &'a Work,
    pub(crate) barred: &'a BTreeSet<PersonId>,
    pub(crate) position: Option<i64>,
}

pub(crate) async fn place(connection: &mut PgConnection, placed: &[Placed<'_>]) -> Attempt<()> {
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
    let numbers = intern(connection, &sets).await?;
    let number = |set: &SetKey| numbers.get(set).copied().unwrap_or_default();
    let (tenants, ids) = key_columns(placed.iter().map(|one| one.key));
    let items = || placed.iter().map(|one| &one.work.item);
    sqlx::query(PLACE)
        .bind(&tenants)
        .bind(&ids)
        .bind(items().map(|item| item.queue.as_str()).collect::<Vec<_>>())
        .bind(sets.iter().map(number).collect::<Vec<i64>>())
        .bind(items().map(|item| -item.priority).collect::<Vec<_>>())
        .bind(items().map(|item| item.class.number()).collect::<Vec<_>>())
        .bind(placed.iter().map(|one| one.position).collect::<Vec<_>>())
        .bind(placed.iter().map(|one| small(one.work.needs())).collect::<Vec<_>>())
        .bind(placed.iter().map(|one| RawJson::of(one.barred).as_str().to_owned()).collect::<Vec<_>>())
        .execute(connection)
        .await?;
    Ok(())
}

/// Tenant, queue and the skills as JSON.
pub(crate) type SetKey = (TenantId, Name, String);

pub(crate) fn set_key(tenant: &TenantId, item: &Item) -> SetKey {
    (tenant.clone(), item.queue.clone(), RawJson::of(&item.skills).as_str().to_owned())
}

/// The numbers of sets of skills; those that have none yet are given one by whoever holds the row of their queue.
pub(crate) async fn intern(connection: &mut PgConnection, sets: &[SetKey]) -> Attempt<HashMap<SetKey, i64>> {
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
    // Somebody else may have been first.
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

async fn find_sets(connection: &mut PgConnection, sets: &BTreeSet<&SetKey>) -> Attempt<HashMap<SetKey, i64>> {
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

pub(crate) async fn write_log(connection: &mut PgConnection, log: &[(&ItemKey, &LogEntry)]) -> Attempt<()> {
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
        .bind(log.iter().map(|(_, entry)| RawJson::of(entry).as_str().to_owned()).collect::<Vec<_>>())
        .execute(connection)
        .await?;
    Ok(())
}

/// In the order in which their rows are locked.
pub(crate) type Sums = BTreeMap<(TenantId, Name, Option<PersonId>), Totals>;

pub(crate) async fn add_totals(connection: &mut PgConnection, sums: &Sums, now: Timestamp) -> Attempt<()> {
    const ADD: &str = "
INSERT INTO queue_totals AS t (tenant, queue, person, day, created, started, completed, skipped, expired_pending,
    expired_started, completing_millis, completed_attempts, items_imported, items_done, items_failed,
    items_withdrawn, items_escalated)
SELECT k.tenant, k.queue, k.person, $4, s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8], s[9], s[10], s[11], s[12], s[13]
FROM unnest($1::text[], $2::text[], $3::text[], $5::text[]) AS k(tenant, queue, person, sums),
     LATERAL (SELECT k.sums::bigint[] AS s) AS v
ON CONFLICT (tenant, queue, person, day) DO UPDATE SET
    created = t.created + excluded.created, started = t.started + excluded.started,
    completed = t.completed + excluded.completed, skipped = t.skipped + excluded.skipped,
    expired_pending = t.expired_pending + excluded.expired_pending,
    expired_started = t.expired_started + excluded.expired_started,
    completing_millis = t.completing_millis + excluded.completing_millis,
    completed_attempts = t.completed_attempts + excluded.completed_attempts,
    items_imported = t.items_imported + excluded.items_imported,
    items_done = t.items_done + excluded.items_done, items_failed = t.items_failed + excluded.items_failed,
    items_withdrawn = t.items_withdrawn + excluded.items_withdrawn,
    items_escalated = t.items_escalated + excluded.items_escalated";
    if sums.is_empty() {
        return Ok(());
    }
    let written = |totals: &Totals| {
        let sums: Vec<String> = totals.0.iter().map(ToString::to_string).collect();
        format!("{{{}}}", sums.join(","))
    };
    sqlx::query(ADD)
        .bind(sums.keys().map(|(tenant, _, _)| tenant.as_str()).collect::<Vec<_>>())
        .bind(sums.keys().map(|(_, queue, _)| queue.as_str()).collect::<Vec<_>>())
        .bind(
            sums.keys()
                .map(|(_, _, person)| person.as_ref().map_or("", PersonId::as_str))
                .collect::<Vec<_>>(),
        )
        .bind(stats::day(now))
        .bind(sums.values().map(written).collect::<Vec<_>>())
        .execute(connection)
        .await?;
    Ok(())
}
