//! Leased actions with everything that performing them takes.

use std::collections::{BTreeMap, HashMap};

use millstream_core::id::{ActionKey, Epoch, Name};
use millstream_core::raw::RawJson;
use millstream_store::Result;
use millstream_store::action_store::{Lease, LeasedAction};
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use crate::decode::Fields;
use crate::errors::store_error;
use crate::param::{self, ActionParam};

/// Read actions that were leased in this transaction, in the order of `keys`.
///
/// One that cannot be decoded is left out and reported: its lease runs out and it is tried again, and
/// the others are performed.
pub(crate) async fn read_leased(
    connection: &mut SqliteConnection,
    keys: &[&ActionKey],
) -> Result<Vec<LeasedAction>> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let keys = param::rows(keys.iter().map(|key| ActionParam::of(key)))?;
    let rows = read_actions(connection, &keys).await?;
    let mut results = read_results(connection, &keys).await?;
    let mut leased = Vec::with_capacity(rows.len());
    for row in rows.iter().map(Fields) {
        let results = results.remove(&row.index("place")?).unwrap_or_default();
        match decode(row, results) {
            Ok(action) => leased.push(action),
            Err(error) => tracing::error!(
                tenant = row.text("tenant").unwrap_or_default(),
                execution.id = row.text("execution_id").unwrap_or_default(),
                action = row.text("action").unwrap_or_default(),
                %error,
                "a leased action cannot be decoded"
            ),
        }
    }
    Ok(leased)
}

fn decode(row: Fields<'_>, results: BTreeMap<Name, RawJson>) -> Result<LeasedAction> {
    let needs = row.needs()?;
    Ok(LeasedAction {
        lease: Lease { key: row.action_key()?, epoch: Epoch(row.int("epoch")?) },
        event_id: row.event_id("event_id")?,
        definition: row.definition()?,
        attempt: row.small("attempts")?,
        input: row.opt_raw("input")?,
        scope: row.opt_raw("scope")?,
        results: results.into_iter().filter(|(name, _)| needs.contains(name)).collect(),
        traceparent: row.opt_text("traceparent")?,
        lease_until: row.time("due_at")?,
    })
}

async fn read_actions(connection: &mut SqliteConnection, keys: &str) -> Result<Vec<SqliteRow>> {
    const READ_ACTIONS: &str = "
        SELECT i.key AS place, a.tenant, a.execution_id, a.seq, a.action, a.event_id, a.needs, a.attempts,
               a.epoch, a.due_at, a.input, a.scope, x.definition, x.version, e.traceparent
        FROM json_each(?1) AS i
        CROSS JOIN actions AS a
            ON a.tenant = i.value ->> 'tenant' AND a.execution_id = i.value ->> 'execution'
           AND a.seq = i.value ->> 'seq' AND a.action = i.value ->> 'action'
        CROSS JOIN executions AS x ON x.tenant = a.tenant AND x.execution_id = a.execution_id
        LEFT JOIN events AS e ON e.tenant = a.tenant AND e.event_id = a.event_id
        ORDER BY i.key";
    sqlx::query(READ_ACTIONS).bind(keys).fetch_all(connection).await.map_err(store_error)
}

/// Results of the other actions of the same transition, for those that need any.
async fn read_results(
    connection: &mut SqliteConnection,
    keys: &str,
) -> Result<HashMap<usize, BTreeMap<Name, RawJson>>> {
    const READ_RESULTS: &str = "
        SELECT i.key AS place, b.action, b.result
        FROM json_each(?1) AS i
        CROSS JOIN actions AS a
            ON a.tenant = i.value ->> 'tenant' AND a.execution_id = i.value ->> 'execution'
           AND a.seq = i.value ->> 'seq' AND a.action = i.value ->> 'action' AND a.needs <> '[]'
        CROSS JOIN actions AS b
            ON b.tenant = a.tenant AND b.execution_id = a.execution_id AND b.seq = a.seq
        WHERE b.status = 'succeeded' AND b.result IS NOT NULL";
    let rows = sqlx::query(READ_RESULTS).bind(keys).fetch_all(connection).await.map_err(store_error)?;
    let mut results: HashMap<usize, BTreeMap<Name, RawJson>> = HashMap::new();
    for row in rows.iter().map(Fields) {
        // A name that does not decode cannot be among the needs of an action that does.
        if let Ok(name) = row.id("action") {
            results.entry(row.index("place")?).or_default().insert(name, row.raw("result")?);
        }
    }
    Ok(results)
}
