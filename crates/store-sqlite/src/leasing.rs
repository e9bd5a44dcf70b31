//! Which actions a caller gets, and the lease itself.
//!
//! The lease policy is arithmetic inside the statements: a lease lasts for the heartbeat, for the attempt,
//! for the shorter one of the two, or else for the time that its taker asks for. `min` of SQLite is null as
//! soon as one of its arguments is, and so are sums.

use millstream_model::action_queue::ActionQueue;
use millstream_model::id::{ActionKey, WorkerId};
use millstream_model::time::Timestamp;
use millstream_store::action_store::LeasedAction;
use millstream_store::execution_store::LeaseGrant;
use rusqlite::Connection;

use crate::decode::SqliteFields;
use crate::errors::SqliteResult;
use crate::leased_actions::read_leased;
use crate::param;

/// Workers poll often and mostly find nothing: a reader answers that without the writer's queue.
pub(crate) fn is_any_due(
    connection: &Connection,
    queues: &[ActionQueue],
    now: Timestamp,
) -> SqliteResult<bool> {
    // `settled_at IS NULL` is the condition of the index. Waiting ones have no time.
    const IS_ANY_DUE: &str = "
        SELECT EXISTS (SELECT 1 FROM actions
                       WHERE settled_at IS NULL AND queue = ?1 AND due_at <= ?2)";
    let mut is_due = connection.prepare_cached(IS_ANY_DUE)?;
    for queue in queues {
        if is_due.query_row((queue.as_str(), now.as_millis()), |row| row.get(0))? {
            return Ok(true);
        }
    }
    Ok(false)
}

pub(crate) fn is_any_overdue(connection: &Connection, now: Timestamp) -> SqliteResult<bool> {
    const IS_ANY_OVERDUE: &str = "
        SELECT EXISTS (SELECT 1 FROM actions WHERE expires_at <= ?1)
            OR EXISTS (SELECT 1 FROM actions
                       WHERE status = 'leased' AND (attempt_ms IS NOT NULL OR close_ms IS NOT NULL)
                         AND due_at <= ?1 AND (attempt_ms IS NOT NULL OR ready_at + close_ms <= ?1))";
    Ok(connection.prepare_cached(IS_ANY_OVERDUE)?.query_row([now.as_millis()], |row| row.get(0))?)
}

/// Lease due actions of the queues of the grant.
pub(crate) fn lease_due(
    connection: &Connection,
    takers: &[WorkerId],
    grant: &LeaseGrant,
    now: Timestamp,
) -> SqliteResult<Vec<LeasedAction>> {
    let mut due = Vec::new();
    for (nth, queue) in grant.queues.iter().enumerate() {
        if !grant.queues.iter().take(nth).any(|earlier| earlier == queue) {
            due.extend(read_due(connection, queue, grant.slots, now)?);
        }
    }
    if grant.queues.len() > 1 {
        due.sort();
        due.truncate(grant.slots);
    }
    lease_rows(connection, takers, grant, due.into_iter().map(|due| due.place), AttemptCounting::Yes, now)
}

/// Lease actions that missed a deadline of their schedule, in any queue.
pub(crate) fn lease_overdue(
    connection: &Connection,
    worker: &WorkerId,
    grant: &LeaseGrant,
    now: Timestamp,
) -> SqliteResult<Vec<LeasedAction>> {
    // Two ranges of two small indexes: schedules of unleased actions, and expired leases.
    const READ_OVERDUE: &str = "
        SELECT place FROM (
            SELECT rowid AS place, expires_at AS since FROM actions WHERE expires_at <= ?1
            UNION ALL
            SELECT rowid, due_at FROM actions
            WHERE status = 'leased' AND (attempt_ms IS NOT NULL OR close_ms IS NOT NULL)
              AND due_at <= ?1 AND (attempt_ms IS NOT NULL OR ready_at + close_ms <= ?1))
        ORDER BY since, place LIMIT ?2";
    let mut read = connection.prepare_cached(READ_OVERDUE)?;
    let places = read.query_map((now.as_millis(), param::limit(grant.slots)), |row| row.get(0))?;
    let places = places.collect::<rusqlite::Result<Vec<i64>>>()?;
    lease_rows(connection, std::slice::from_ref(worker), grant, places, AttemptCounting::No, now)
}

/// Round robin between queues: the head of each, then the second of each. With more queues than slots, the
/// head that has waited longest comes first, so that every queue is served eventually.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct DueAction {
    rank: usize,
    due_at: i64,
    place: i64,
}

/// Due actions of one queue, the longest due first: one range of the index.
fn read_due(
    connection: &Connection,
    queue: &ActionQueue,
    slots: usize,
    now: Timestamp,
) -> SqliteResult<Vec<DueAction>> {
    const READ_DUE: &str = "
        SELECT rowid, due_at FROM actions
        WHERE settled_at IS NULL AND queue = ?1 AND due_at <= ?2
        ORDER BY due_at, rowid
        LIMIT ?3";
    let mut read = connection.prepare_cached(READ_DUE)?;
    let mut rows = read.query((queue.as_str(), now.as_millis(), param::limit(slots)))?;
    let mut due = Vec::new();
    while let Some(row) = rows.next()? {
        due.push(DueAction {
            rank: due.len(),
            due_at: SqliteFields(row).int(1)?,
            place: SqliteFields(row).int(0)?,
        });
    }
    Ok(due)
}

/// Whether a lease is an attempt.
#[derive(Debug, Clone, Copy)]
enum AttemptCounting {
    Yes,
    No,
}

/// Lease rows to the takers, one each and the rest to the last of them, and read them, in order.
///
/// A row whose key does not decode is leased like the others and then left out: otherwise it would block the
/// head of the queue for ever.
fn lease_rows(
    connection: &Connection,
    takers: &[WorkerId],
    grant: &LeaseGrant,
    places: impl IntoIterator<Item = i64>,
    counted: AttemptCounting,
    now: Timestamp,
) -> SqliteResult<Vec<LeasedAction>> {
    const TAKE: &str = "
        UPDATE actions SET
            status = 'leased', epoch = epoch + 1, worker_id = ?2,
            attempts = attempts + CASE WHEN closing THEN 0 ELSE ?5 END,
            due_at = ?3 + coalesce(min(heartbeat_ms, attempt_ms), heartbeat_ms, attempt_ms, ?4),
            attempt_until = ?3 + attempt_ms,
            expires_at = NULL
        WHERE rowid = ?1
        RETURNING tenant, execution_id, seq, action";
    let mut keys: Vec<ActionKey> = Vec::new();
    let mut take = connection.prepare_cached(TAKE)?;
    for place in places {
        let Some(worker) = takers.get(keys.len()).or(takers.last()) else { break };
        let count = match counted {
            AttemptCounting::Yes => 1,
            AttemptCounting::No => 0,
        };
        let mut rows =
            take.query((place, worker.as_str(), now.as_millis(), param::millis(grant.ttl), count))?;
        let Some(row) = rows.next()? else { continue };
        match SqliteFields(row).action_key() {
            Ok(key) => keys.push(key),
            Err(error) => tracing::error!(%error, "the key of an action cannot be decoded"),
        }
    }
    drop(take);
    read_leased(connection, &keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_order_is_round_robin() {
        let due = |rank, due_at, place| DueAction { rank, due_at, place };
        let mut all = [due(0, 1, 1), due(1, 2, 2), due(2, 3, 3), due(0, 9, 4), due(1, 9, 5), due(0, 0, 6)];
        all.sort();
        assert_eq!(all.map(|due| due.place), [6, 1, 4, 2, 5, 3]);
    }
}
