//! Leased actions with everything that performing them needs.

use std::collections::BTreeMap;
use std::time::Duration;

use millstream_model::id::{ActionKey, Epoch, Name};
use millstream_model::raw::RawJson;
use millstream_store::StoreError;
use millstream_store::action_store::{Lease, LeaseOrigin, LeasedAction};
use rusqlite::Connection;

use crate::decode::SqliteFields;
use crate::errors::SqliteResult;

/// Read actions that were leased in this transaction, in the order of `keys`.
///
/// An undecodable action is left out and logged: its lease expires and it is tried again, and the others are
/// performed.
pub(crate) fn read_leased(connection: &Connection, keys: &[ActionKey]) -> SqliteResult<Vec<LeasedAction>> {
    let mut leased = Vec::with_capacity(keys.len());
    for key in keys {
        match read_action(connection, key).map_err(StoreError::from) {
            Ok(action) => leased.extend(action),
            Err(StoreError::Corrupt(why)) => tracing::error!(
                tenant = %key.execution.tenant,
                execution.id = %key.execution.execution,
                action = %key.action,
                error = why,
                "a leased action cannot be decoded"
            ),
            Err(error @ (StoreError::Unavailable(_) | StoreError::Contention(_))) => return Err(error.into()),
        }
    }
    Ok(leased)
}

fn read_action(connection: &Connection, key: &ActionKey) -> SqliteResult<Option<LeasedAction>> {
    const READ_ACTION: &str = "
        SELECT a.event_id, a.needs, a.attempts, a.epoch, a.due_at, a.input, a.scope, x.definition, x.version,
               e.traceparent, a.revision, a.progress, a.heartbeat_ms, coalesce(a.ready_at, a.created_at) AS ready_at,
               CASE WHEN a.closing THEN a.error END AS closing, a.awaited
        FROM actions AS a
        CROSS JOIN executions AS x ON x.tenant = a.tenant AND x.execution_id = a.execution_id
        LEFT JOIN events AS e ON e.tenant = a.tenant AND e.event_id = a.event_id
        WHERE a.tenant = ?1 AND a.execution_id = ?2 AND a.seq = ?3 AND a.action = ?4";
    let mut read = connection.prepare_cached(READ_ACTION)?;
    let mut rows = read.query((
        key.execution.tenant.as_str(),
        key.execution.execution.as_str(),
        key.seq.0,
        key.action.as_str(),
    ))?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let row = SqliteFields(row);
    let needs = row.needs()?;
    Ok(Some(LeasedAction {
        lease: Lease { key: key.clone(), epoch: Epoch(row.int("epoch")?) },
        event_id: row.event_id("event_id")?,
        definition: row.definition()?,
        attempt: row.small("attempts")?,
        input: row.opt_raw("input")?,
        scope: row.opt_raw("scope")?,
        results: read_results(connection, key, needs)?,
        traceparent: row.opt_text("traceparent")?,
        lease_until: row.time("due_at")?,
        revision: row.small("revision")?,
        heartbeat: row.opt_int("heartbeat_ms")?.map(|millis| Duration::from_millis(millis.unsigned_abs())),
        progress: row.opt_raw("progress")?,
        ready_at: row.time("ready_at")?,
        closing: row.opt_raw("closing")?,
        begun: if row.flag("awaited")? { LeaseOrigin::Awaited } else { LeaseOrigin::No },
    }))
}

/// Results of other actions of the same transition.
fn read_results(
    connection: &Connection,
    key: &ActionKey,
    needs: Vec<Name>,
) -> SqliteResult<BTreeMap<Name, RawJson>> {
    const READ_RESULT: &str = "
        SELECT result FROM actions
        WHERE tenant = ?1 AND execution_id = ?2 AND seq = ?3 AND action = ?4 AND status = 'succeeded'";
    let mut read = connection.prepare_cached(READ_RESULT)?;
    let mut results = BTreeMap::new();
    for need in needs {
        let mut rows = read.query((
            key.execution.tenant.as_str(),
            key.execution.execution.as_str(),
            key.seq.0,
            need.as_str(),
        ))?;
        let result = rows.next()?.map(|row| SqliteFields(row).opt_raw(0)).transpose()?.flatten();
        drop(rows);
        if let Some(result) = result {
            results.insert(need, result);
        }
    }
    Ok(results)
}
