//! Rows of an item: the item, its assignments, its openings, its log, and the totals that it adds to.

use std::collections::{BTreeMap, BTreeSet};

use millstream_model::id::{AssignmentId, ItemKey, Name, PersonId, TenantId};
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_people::assignment::item::FORMAT;
use millstream_people::assignment::select::OpeningChange;
use millstream_people::assignment::stats::{self, AssignmentTotals};
use millstream_people::assignment::{ItemAggregate, ItemAssignment, ItemLogEntry, QueueItem};
use millstream_store::item_store::{ItemCommit, LoadedItem};
use rusqlite::{Connection, OptionalExtension};

use crate::decode::SqliteFields;
use crate::errors::{SqliteResult, corrupt_row};
use crate::param;

pub(crate) fn read_item(connection: &Connection, key: &ItemKey) -> SqliteResult<Option<LoadedItem>> {
    const READ: &str = "SELECT version, body, payload FROM items WHERE tenant = ?1 AND item = ?2";
    let mut read = connection.prepare_cached(READ)?;
    let mut rows = read.query((key.tenant.as_str(), key.item.as_str()))?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let row = SqliteFields(row);
    let mut work = ItemAggregate::new(decode_item(row, "body")?, row.raw("payload")?);
    work.assignments = read_assignments(connection, key)?;
    Ok(Some(LoadedItem { key: key.clone(), version: row.int("version")?, work }))
}

/// An item in a format that this build reads.
pub(crate) fn decode_item(row: SqliteFields<'_>, column: &str) -> SqliteResult<QueueItem> {
    let item: QueueItem = row.json(column)?;
    if item.format != FORMAT {
        return Err(corrupt_row(format!("item has format {}, this build reads {FORMAT}", item.format)));
    }
    Ok(item)
}

fn read_assignments(
    connection: &Connection,
    key: &ItemKey,
) -> SqliteResult<BTreeMap<AssignmentId, ItemAssignment>> {
    const READ: &str = "SELECT body FROM assignments WHERE tenant = ?1 AND item = ?2";
    let mut read = connection.prepare_cached(READ)?;
    let mut rows = read.query((key.tenant.as_str(), key.item.as_str()))?;
    let mut assignments = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let one: ItemAssignment = SqliteFields(row).json("body")?;
        assignments.insert(one.id, one);
    }
    Ok(assignments)
}

/// Takes the next position of the queue.
pub(crate) fn take_position(connection: &Connection) -> SqliteResult<i64> {
    const NEXT: &str = "UPDATE standing SET last = last + 1 RETURNING last";
    Ok(connection.prepare_cached(NEXT)?.query_row((), |row| row.get(0))?)
}

/// The number of a skill set in a queue; a new one if it has none yet.
pub(crate) fn number_skill_set(
    connection: &Connection,
    tenant: &TenantId,
    queue: &Name,
    skills: &BTreeSet<Name>,
) -> SqliteResult<i64> {
    const FIND: &str = "SELECT set_id FROM skill_sets WHERE tenant = ?1 AND queue = ?2 AND skills = ?3";
    const ADD: &str = "
        INSERT INTO skill_sets (tenant, queue, set_id, skills)
        SELECT ?1, ?2, coalesce(max(set_id), 0) + 1, ?3 FROM skill_sets WHERE tenant = ?1 AND queue = ?2
        RETURNING set_id";
    let skills = RawJson::from_value(skills);
    let row = (tenant.as_str(), queue.as_str(), skills.as_str());
    let found = connection.prepare_cached(FIND)?.query_row(row, |row| row.get(0)).optional()?;
    match found {
        Some(set) => Ok(set),
        None => Ok(connection.prepare_cached(ADD)?.query_row(row, |row| row.get(0))?),
    }
}

/// The result of an item's commit: its new version, or the current one on a conflict.
pub(crate) fn write_item(
    connection: &Connection,
    commit: &ItemCommit,
    now: Timestamp,
) -> SqliteResult<std::result::Result<i64, Option<i64>>> {
    const WRITE: &str = "
        UPDATE items SET queue = ?3, status = ?4, version = version + 1, due_at = ?5, ended_at = ?6, body = ?7
        WHERE tenant = ?1 AND item = ?2 AND version = ?8";
    const VERSION: &str = "SELECT version FROM items WHERE tenant = ?1 AND item = ?2";
    let ItemCommit { key, expected, change, totals, settlement: _ } = commit;
    let item = &change.work.item;
    let (tenant, id) = (key.tenant.as_str(), key.item.as_str());
    let written = connection.prepare_cached(WRITE)?.execute((
        tenant,
        id,
        item.queue.as_str(),
        item.status.as_str(),
        item.due_at.map(Timestamp::as_millis),
        item.ended_at.map(Timestamp::as_millis),
        RawJson::from_value(item).as_str(),
        expected,
    ))?;
    if written == 0 {
        let mut read = connection.prepare_cached(VERSION)?;
        return Ok(Err(read.query_row((tenant, id), |row| row.get(0)).optional()?));
    }
    write_opening(connection, commit)?;
    for one in change.changed.iter().filter_map(|id| change.work.assignments.get(id)) {
        write_assignment(connection, &key.tenant, one)?;
    }
    write_log(connection, key, &change.log)?;
    for ((queue, person), added) in totals {
        add_totals(connection, &key.tenant, queue, person.as_ref(), now, added)?;
    }
    Ok(Ok(expected + 1))
}

fn write_opening(connection: &Connection, commit: &ItemCommit) -> SqliteResult<()> {
    const CLOSE: &str = "DELETE FROM openings WHERE tenant = ?1 AND item = ?2";
    const UPDATE: &str = "UPDATE openings SET needs = ?3, barred = ?4 WHERE tenant = ?1 AND item = ?2";
    let ItemCommit { key, change, .. } = commit;
    let (tenant, id) = (key.tenant.as_str(), key.item.as_str());
    match change.opening.change {
        OpeningChange::None => {}
        OpeningChange::Close => {
            connection.prepare_cached(CLOSE)?.execute((tenant, id))?;
        }
        OpeningChange::Update => {
            let barred = RawJson::from_value(&change.opening.barred);
            let row = (tenant, id, param::limit(change.opening.needs), barred.as_str());
            connection.prepare_cached(UPDATE)?.execute(row)?;
        }
        OpeningChange::Place => {
            let position = take_position(connection)?;
            place_openings(connection, key, &change.work, &change.opening.barred, position)?;
        }
    }
    Ok(())
}

/// Puts the openings of an item into the queue.
pub(crate) fn place_openings(
    connection: &Connection,
    key: &ItemKey,
    work: &ItemAggregate,
    barred: &BTreeSet<PersonId>,
    position: i64,
) -> SqliteResult<()> {
    const PLACE: &str = "
        INSERT INTO openings (tenant, item, queue, set_id, urgency, class, position, needs, barred)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
        ON CONFLICT (tenant, item) DO UPDATE SET
            queue = excluded.queue, set_id = excluded.set_id, urgency = excluded.urgency,
            class = excluded.class, position = excluded.position, needs = excluded.needs,
            barred = excluded.barred";
    let item = &work.item;
    let set = number_skill_set(connection, &key.tenant, &item.queue, &item.skills)?;
    connection.prepare_cached(PLACE)?.execute((
        key.tenant.as_str(),
        key.item.as_str(),
        item.queue.as_str(),
        set,
        -item.priority,
        item.class.as_number(),
        position,
        param::limit(work.opening_count()),
        RawJson::from_value(barred).as_str(),
    ))?;
    Ok(())
}

fn write_assignment(connection: &Connection, tenant: &TenantId, one: &ItemAssignment) -> SqliteResult<()> {
    const WRITE: &str = "
        INSERT INTO assignments (tenant, assignment, item, person, queue, status, is_open, due_at, body)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
        ON CONFLICT (tenant, assignment) DO UPDATE SET
            status = excluded.status, is_open = excluded.is_open, due_at = excluded.due_at, body = excluded.body";
    connection.prepare_cached(WRITE)?.execute((
        tenant.as_str(),
        one.id.0.as_bytes(),
        one.item.as_str(),
        one.person.as_str(),
        one.queue.as_str(),
        one.status.as_str(),
        one.status.is_open(),
        one.deadline.map(Timestamp::as_millis),
        RawJson::from_value(one).as_str(),
    ))?;
    Ok(())
}

pub(crate) fn write_log(connection: &Connection, key: &ItemKey, log: &[ItemLogEntry]) -> SqliteResult<()> {
    const WRITE: &str = "INSERT INTO item_log (tenant, item, no, at, body) VALUES (?1, ?2, ?3, ?4, ?5)";
    let mut write = connection.prepare_cached(WRITE)?;
    for entry in log {
        let (tenant, id) = (key.tenant.as_str(), key.item.as_str());
        write.execute((tenant, id, entry.no, entry.at.as_millis(), RawJson::from_value(entry).as_str()))?;
    }
    Ok(())
}

pub(crate) fn add_totals(
    connection: &Connection,
    tenant: &TenantId,
    queue: &Name,
    person: Option<&PersonId>,
    now: Timestamp,
    added: &AssignmentTotals,
) -> SqliteResult<()> {
    const ADD: &str = "
        INSERT INTO queue_totals (tenant, queue, person, day, created, started, completed, skipped,
            expired_pending, expired_started, completing_millis, completed_attempts, items_imported,
            items_done, items_failed, items_withdrawn, items_escalated)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)
        ON CONFLICT (tenant, queue, person, day) DO UPDATE SET
            created = created + excluded.created, started = started + excluded.started,
            completed = completed + excluded.completed, skipped = skipped + excluded.skipped,
            expired_pending = expired_pending + excluded.expired_pending,
            expired_started = expired_started + excluded.expired_started,
            completing_millis = completing_millis + excluded.completing_millis,
            completed_attempts = completed_attempts + excluded.completed_attempts,
            items_imported = items_imported + excluded.items_imported,
            items_done = items_done + excluded.items_done, items_failed = items_failed + excluded.items_failed,
            items_withdrawn = items_withdrawn + excluded.items_withdrawn,
            items_escalated = items_escalated + excluded.items_escalated";
    let mut add = connection.prepare_cached(ADD)?;
    add.raw_bind_parameter(1, tenant.as_str())?;
    add.raw_bind_parameter(2, queue.as_str())?;
    add.raw_bind_parameter(3, person.map_or("", PersonId::as_str))?;
    add.raw_bind_parameter(4, stats::day_of(now))?;
    for (at, sum) in (5..).zip(added.0) {
        add.raw_bind_parameter(at, sum)?;
    }
    add.raw_execute()?;
    Ok(())
}
