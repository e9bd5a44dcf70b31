//! Handing out assignments: caller by caller, within one transaction for all of them.
//!
//! The head of a queue is read in order, up to a limit; if nothing there suits the caller, the heads of the
//! caller's skill sets are read. Each search walks an index.

use std::collections::{BTreeMap, BTreeSet};

use millstream_model::id::{ItemKey, Name, PersonId};
use millstream_model::time::Timestamp;
use millstream_people::assignment::select::{
    AskingPerson, OpeningClass, PersonIdleReason, PersonLoad, PersonProfile, QueuePosition,
};
use millstream_people::assignment::{AssignmentStatus, ItemAssignment};
use millstream_store::StoreResult;
use millstream_store::assignments::{
    AssignedWork, AssignmentCaller, Assignments, NextAssignment, OverdueItem,
};
use millstream_store::opening_selection;
use millstream_store::queue_store::QueueView;
use rusqlite::{Connection, Row};

use crate::connect::SqliteStore;
use crate::decode::SqliteFields;
use crate::errors::{SqliteResult, corrupt_row};
use crate::item_rows::{read_item, write_item};
use crate::param;
use crate::queue_store::{read_person, read_queue, read_queues};

/// How many openings of a queue are read before its skill sets are.
const LOOK: usize = 256;
/// Upper bound on queues for a caller that names none.
const MOST_QUEUES: usize = 1_000;

#[async_trait::async_trait]
impl Assignments for SqliteStore {
    async fn assign_next(
        &self,
        callers: &[AssignmentCaller],
        now: Timestamp,
    ) -> StoreResult<Vec<NextAssignment>> {
        let callers = callers.to_vec();
        self.write_transaction(move |connection| {
            callers.iter().map(|caller| assign_next(connection, caller, now)).collect()
        })
        .await
    }

    async fn list_overdue(&self, now: Timestamp, limit: usize) -> StoreResult<Vec<OverdueItem>> {
        const DUE: &str = "
            SELECT * FROM (
                SELECT tenant, item, assignment, due_at FROM assignments
                WHERE due_at <= ?1 ORDER BY due_at LIMIT ?2)
            UNION ALL
            SELECT * FROM (
                SELECT tenant, item, NULL, due_at FROM items WHERE due_at <= ?1 ORDER BY due_at LIMIT ?2)
            ORDER BY due_at, tenant, item LIMIT ?2";
        self.read_transaction(move |connection| {
            let mut read = connection.prepare_cached(DUE)?;
            let mut rows = read.query((now.as_millis(), param::limit(limit)))?;
            let mut due = Vec::new();
            while let Some(row) = rows.next()? {
                let row = SqliteFields(row);
                let (item, assignment) = (row.item_key()?, row.opt_assignment_id("assignment")?);
                due.push(OverdueItem { item, assignment, at: row.time("due_at")? });
            }
            Ok(due)
        })
        .await
    }
}

fn assign_next(
    connection: &Connection,
    caller: &AssignmentCaller,
    now: Timestamp,
) -> SqliteResult<NextAssignment> {
    let open = read_open(connection, caller)?;
    let pending = open.iter().filter(|one| one.status == AssignmentStatus::Pending);
    let pending = pending.filter(|one| opening_selection::requests_queue(caller, &one.queue));
    if let Some(one) = pending.min_by_key(|one| (one.created_at, one.id)) {
        return pending_assignment(connection, caller, one);
    }
    let queues = if caller.queues.is_empty() {
        read_queues(connection, &caller.tenant, "", MOST_QUEUES)?
    } else {
        let named = caller.queues.iter().map(|queue| read_queue(connection, &caller.tenant, queue));
        named.collect::<SqliteResult<Vec<_>>>()?.into_iter().flatten().collect()
    };
    let profile = read_person(connection, &caller.tenant, &caller.person)?;
    let profile = profile.unwrap_or_else(|| PersonProfile::unknown(caller.person.clone()));
    let loads = read_loads(connection, caller, &queues, &open)?;
    let asking = match opening_selection::eligible_queues(
        caller,
        &profile,
        &queues.iter().collect::<Vec<_>>(),
        &loads,
    ) {
        Ok(asking) => asking,
        Err(idle) => return Ok(NextAssignment::Nothing(idle)),
    };
    let mut best: Option<(QueuePosition, ItemKey, &QueueView)> = None;
    for queue in queues.iter().filter(|view| asking.queues.contains(&view.config.name)) {
        let found = find_opening(connection, caller, &asking, &queue.config.name)?;
        if let Some((standing, key)) = found
            && best.as_ref().is_none_or(|(before, _, _)| standing < *before)
        {
            best = Some((standing, key, queue));
        }
    }
    let Some((_, key, queue)) = best else {
        return Ok(NextAssignment::Nothing(PersonIdleReason::NothingOpen));
    };
    let loaded =
        read_item(connection, &key)?.ok_or_else(|| corrupt_row(format!("item {key} does not exist")))?;
    let commit = opening_selection::assign_opening(&loaded, queue, caller, now)
        .ok_or_else(|| corrupt_row(format!("the opening of {key} disagrees with the item")))?;
    write_item(connection, &commit, now)?.map_err(|_| corrupt_row(format!("{key} has another version")))?;
    let work = commit.change.work;
    let assignment = work.assignments.get(&caller.next).cloned();
    let assignment =
        assignment.ok_or_else(|| corrupt_row(format!("the assignment of {key} was not written")))?;
    Ok(NextAssignment::Assigned(Box::new(AssignedWork {
        assignment,
        item: work.item,
        payload: work.payload,
        already_assigned: false,
    })))
}

fn pending_assignment(
    connection: &Connection,
    caller: &AssignmentCaller,
    one: &ItemAssignment,
) -> SqliteResult<NextAssignment> {
    let key = ItemKey { tenant: caller.tenant.clone(), item: one.item.clone() };
    let loaded =
        read_item(connection, &key)?.ok_or_else(|| corrupt_row(format!("item {key} does not exist")))?;
    let (item, payload) = (loaded.work.item, loaded.work.payload);
    Ok(NextAssignment::Assigned(Box::new(AssignedWork {
        assignment: one.clone(),
        item,
        payload,
        already_assigned: true,
    })))
}

fn read_open(connection: &Connection, caller: &AssignmentCaller) -> SqliteResult<Vec<ItemAssignment>> {
    const READ: &str = "SELECT body FROM assignments WHERE tenant = ?1 AND person = ?2 AND is_open";
    let mut read = connection.prepare_cached(READ)?;
    let mut rows = read.query((caller.tenant.as_str(), caller.person.as_str()))?;
    let mut open = Vec::new();
    while let Some(row) = rows.next()? {
        open.push(SqliteFields(row).json("body")?);
    }
    Ok(open)
}

/// The caller's assignments; the completed count is read only where a queue requires it.
fn read_loads(
    connection: &Connection,
    caller: &AssignmentCaller,
    queues: &[QueueView],
    open: &[ItemAssignment],
) -> SqliteResult<BTreeMap<Name, PersonLoad>> {
    const COMPLETED: &str = "
        SELECT coalesce(sum(completed), 0) FROM queue_totals WHERE tenant = ?1 AND queue = ?2 AND person = ?3";
    let mut loads: BTreeMap<Name, PersonLoad> = BTreeMap::new();
    for one in open {
        loads.entry(one.queue.clone()).or_default().open += 1;
    }
    for queue in queues.iter().filter(|view| view.config.per_person.total.is_some()) {
        let name = &queue.config.name;
        let row = (caller.tenant.as_str(), name.as_str(), caller.person.as_str());
        let completed: i64 = connection.prepare_cached(COMPLETED)?.query_row(row, |row| row.get(0))?;
        loads.entry(name.clone()).or_default().completed = completed.unsigned_abs();
    }
    Ok(loads)
}

/// The first suitable opening of a queue.
fn find_opening(
    connection: &Connection,
    caller: &AssignmentCaller,
    asking: &AskingPerson,
    queue: &Name,
) -> SqliteResult<Option<(QueuePosition, ItemKey)>> {
    const LINE: &str = "
        SELECT o.tenant, o.item, o.urgency, o.class, o.position, o.barred, s.skills
        FROM openings AS o
        CROSS JOIN skill_sets AS s ON s.tenant = o.tenant AND s.queue = o.queue AND s.set_id = o.set_id
        WHERE o.tenant = ?1 AND o.queue = ?2
        ORDER BY o.urgency, o.class, o.position LIMIT ?3";
    const SETS: &str = "SELECT set_id, skills FROM skill_sets WHERE tenant = ?1 AND queue = ?2";
    const LINE_OF_SET: &str = "
        SELECT tenant, item, urgency, class, position, barred FROM openings
        WHERE tenant = ?1 AND queue = ?2 AND set_id = ?3 ORDER BY urgency, class, position";
    let (tenant, queue) = (caller.tenant.as_str(), queue.as_str());
    let mut line = connection.prepare_cached(LINE)?;
    let mut rows = line.query((tenant, queue, param::limit(LOOK)))?;
    let mut looked = 0;
    while let Some(row) = rows.next()? {
        looked += 1;
        let skills: BTreeSet<Name> = SqliteFields(row).json("skills")?;
        if skills.is_subset(&asking.skills)
            && let Some(found) = unless_barred(row, &asking.person)?
        {
            return Ok(Some(found));
        }
    }
    if looked < LOOK {
        return Ok(None);
    }
    let mut sets = connection.prepare_cached(SETS)?;
    let mut rows = sets.query((tenant, queue))?;
    let mut best: Option<(QueuePosition, ItemKey)> = None;
    let mut line = connection.prepare_cached(LINE_OF_SET)?;
    while let Some(row) = rows.next()? {
        let skills: BTreeSet<Name> = SqliteFields(row).json("skills")?;
        if !skills.is_subset(&asking.skills) {
            continue;
        }
        let mut openings = line.query((tenant, queue, SqliteFields(row).int("set_id")?))?;
        while let Some(row) = openings.next()? {
            let standing = decode_standing(SqliteFields(row))?;
            if best.as_ref().is_some_and(|(before, _)| *before <= standing) {
                break;
            }
            if let Some(found) = unless_barred(row, &asking.person)? {
                best = Some(found);
                break;
            }
        }
    }
    Ok(best)
}

fn unless_barred(row: &Row<'_>, person: &PersonId) -> SqliteResult<Option<(QueuePosition, ItemKey)>> {
    let row = SqliteFields(row);
    let barred: BTreeSet<PersonId> = row.json("barred")?;
    if barred.contains(person) { Ok(None) } else { Ok(Some((decode_standing(row)?, row.item_key()?))) }
}

fn decode_standing(row: SqliteFields<'_>) -> SqliteResult<QueuePosition> {
    let class = if row.int("class")? == 0 { OpeningClass::Reopened } else { OpeningClass::Fresh };
    Ok(QueuePosition { urgency: row.small("urgency")?, class, position: row.int("position")? })
}
