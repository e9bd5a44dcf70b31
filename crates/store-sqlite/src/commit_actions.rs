//! The actions of a commit: new ones, leased to the committing worker as far as it has free slots, and
//! those that a cancellation overtakes.

use millstream_core::id::{Epoch, Name, WorkerId};
use millstream_core::status::ActionStatus;
use millstream_core::time::Timestamp;
use millstream_store::Result;
use millstream_store::action_store::LeasedAction;
use millstream_store::execution_store::{Commit, LeaseGrant, NewAction, OpenActions};
use serde::Serialize;
use sqlx::SqliteConnection;

use crate::errors::{corrupt, store_error};
use crate::leased::read_leased;
use crate::param::{self, ActionParam, ExecutionParam};

pub(crate) fn is_ready(action: &NewAction) -> bool {
    action.status == ActionStatus::Ready
}

/// A row of `actions` to be written.
#[derive(Serialize)]
struct ActionRow<'a> {
    #[serde(flatten)]
    key: ActionParam<'a>,
    event: millstream_core::id::EventId,
    ordinal: i32,
    needs: String,
    status: ActionStatus,
    attempts: i32,
    epoch: Epoch,
    worker: Option<&'a str>,
    due_at: Option<i64>,
    input: Option<&'a str>,
    scope: Option<&'a str>,
    result: Option<&'a str>,
    error: Option<&'a str>,
    handled: i64,
    settled_at: Option<i64>,
}

impl<'a> ActionRow<'a> {
    fn unleased(action: &'a NewAction, now: Timestamp) -> Result<Self> {
        Ok(Self {
            key: ActionParam::of(&action.key),
            event: action.event_id,
            ordinal: action.ordinal,
            needs: names(&action.needs)?,
            status: action.status,
            attempts: 0,
            epoch: Epoch::NONE,
            worker: None,
            due_at: is_ready(action).then_some(now.as_millis()),
            input: action.input.as_ref().map(|raw| raw.as_str()),
            scope: action.scope.as_ref().map(|raw| raw.as_str()),
            result: action.result.as_ref().map(|raw| raw.as_str()),
            error: action.error.as_ref().map(|raw| raw.as_str()),
            handled: param::handled(action.handling),
            settled_at: action.status.is_settled().then_some(now.as_millis()),
        })
    }

    fn leased(action: &'a NewAction, worker: &'a WorkerId, until: Timestamp, now: Timestamp) -> Result<Self> {
        Ok(Self {
            status: ActionStatus::Leased,
            attempts: 1,
            epoch: Epoch::FIRST,
            worker: Some(worker.as_str()),
            due_at: Some(until.as_millis()),
            ..Self::unleased(action, now)?
        })
    }
}

fn names(needs: &[Name]) -> Result<String> {
    serde_json::to_string(needs).map_err(corrupt)
}

/// Write the actions of a batch; the first ready ones are leased to `worker` and returned.
pub(crate) async fn insert_actions(
    connection: &mut SqliteConnection,
    worker: &WorkerId,
    passed: &[&Commit],
    lease: LeaseGrant,
    now: Timestamp,
) -> Result<Vec<LeasedAction>> {
    const INSERT_ACTIONS: &str = "
        INSERT INTO actions (tenant, execution_id, seq, action, event_id, ordinal, needs, status, attempts,
                             epoch, worker_id, due_at, input, scope, result, error, handled, created_at,
                             settled_at)
        SELECT value ->> 'tenant', value ->> 'execution', value ->> 'seq', value ->> 'action',
               value ->> 'event', value ->> 'ordinal', value ->> 'needs', value ->> 'status',
               value ->> 'attempts', value ->> 'epoch', value ->> 'worker', value ->> 'due_at',
               value ->> 'input', value ->> 'scope', value ->> 'result', value ->> 'error',
               value ->> 'handled', ?2,
               value ->> 'settled_at'
        FROM json_each(?1)";
    let until = now.plus(lease.ttl);
    let (mut rows, mut leased) = (Vec::new(), Vec::new());
    for action in passed.iter().flat_map(|commit| &commit.actions) {
        rows.push(if is_ready(action) && leased.len() < lease.slots {
            leased.push(&action.key);
            ActionRow::leased(action, worker, until, now)?
        } else {
            ActionRow::unleased(action, now)?
        });
    }
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    sqlx::query(INSERT_ACTIONS)
        .bind(param::rows(rows)?)
        .bind(now.as_millis())
        .execute(&mut *connection)
        .await
        .map_err(store_error)?;
    read_leased(connection, &leased).await
}

/// Cancel what nobody holds, and complete the events that have nothing open left by that.
pub(crate) async fn cancel_open_actions(
    connection: &mut SqliteConnection,
    passed: &[&Commit],
    now: Timestamp,
) -> Result<()> {
    const CANCEL_ACTIONS: &str = "
        UPDATE actions SET status = 'cancelled', due_at = NULL, settled_at = ?2
        WHERE status IN ('waiting', 'ready') AND (tenant, execution_id) IN (
            SELECT value ->> 'tenant', value ->> 'execution' FROM json_each(?1))";
    const COMPLETE_EVENTS: &str = "
        UPDATE events SET status = 'completed', completed_at = ?2
        WHERE status = 'processing'
          AND (tenant, execution_id, seq) IN (
              SELECT a.tenant, a.execution_id, a.seq
              FROM json_each(?1) AS i
              CROSS JOIN actions AS a
                  ON a.tenant = i.value ->> 'tenant' AND a.execution_id = i.value ->> 'execution'
              WHERE a.status = 'cancelled')
          AND NOT EXISTS (
              SELECT 1 FROM actions AS a
              WHERE a.tenant = events.tenant AND a.execution_id = events.execution_id AND a.seq = events.seq
                AND a.status IN ('waiting', 'ready', 'leased'))";
    let keys: Vec<_> = passed
        .iter()
        .filter(|commit| match commit.open_actions {
            OpenActions::Keep => false,
            OpenActions::Cancel => true,
        })
        .map(|commit| ExecutionParam::of(&commit.execution))
        .collect();
    if keys.is_empty() {
        return Ok(());
    }
    let keys = param::rows(keys)?;
    for statement in [CANCEL_ACTIONS, COMPLETE_EVENTS] {
        sqlx::query(statement)
            .bind(&keys)
            .bind(now.as_millis())
            .execute(&mut *connection)
            .await
            .map_err(store_error)?;
    }
    Ok(())
}
