//! The rows of a settlement that concerns more than one action: all actions of the transition read, and the
//! changed ones written.

use std::collections::{BTreeMap, BTreeSet};

use millstream_model::action_queue::ActionQueue;
use millstream_model::id::{AcceptNo, ActionKey, DefinitionRef, Epoch, EventId, Name, WorkerId};
use millstream_model::raw::RawJson;
use millstream_model::status::{ActionStatus, EventStatus, ExecutionPhase};
use millstream_model::time::Timestamp;
use millstream_store::action_store::{OutcomeDemand, SettleOutcome};
use millstream_store::execution_store::LeaseGrant;
use millstream_store::settling::{SettledState, TransitionActions, TransitionMember};
use rusqlite::Connection;

use crate::decode::SqliteFields;
use crate::errors::SqliteResult;
use crate::param::{self, action_columns, encode_names};

/// A transition with settling actions.
pub(crate) struct TouchedTransition {
    pub(crate) graph: TransitionActions,
    /// The event that caused it, with its status so far.
    pub(crate) accept_no: AcceptNo,
    pub(crate) event_id: EventId,
    pub(crate) event: EventStatus,
    /// Of the execution.
    pub(crate) phase: ExecutionPhase,
    pub(crate) definition: DefinitionRef,
    /// Actions in queues that the settling worker does not serve.
    pub(crate) unserved: BTreeSet<Name>,
}

/// The transition of an action, with all its actions or only the one that is alone; `None` when there is
/// none.
pub(crate) fn read_touched(
    connection: &Connection,
    key: &ActionKey,
    alone: Option<&Name>,
    served: &[ActionQueue],
) -> SqliteResult<Option<TouchedTransition>> {
    const READ_EVENT: &str = "
        SELECT e.accept_no, x.phase, e.verdict IS 'failed', x.definition, x.version, t.name
        FROM executions AS x
        CROSS JOIN events AS e ON e.tenant = x.tenant AND e.event_id = ?3
        LEFT JOIN transitions AS t
            ON t.tenant = x.tenant AND t.execution_id = x.execution_id AND t.seq = x.seq
        WHERE x.tenant = ?1 AND x.execution_id = ?2";
    let mut unserved = BTreeSet::new();
    let Some((members, event_id)) = read_members(connection, key, alone, |action, queue| {
        if !served.iter().any(|served| served.as_str() == queue) {
            unserved.insert(action.clone());
        }
    })?
    else {
        return Ok(None);
    };
    let (tenant, execution) = (key.execution.tenant.as_str(), key.execution.execution.as_str());
    let mut read = connection.prepare_cached(READ_EVENT)?;
    let mut rows = read.query((tenant, execution, event_id.0.as_bytes()))?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let row = SqliteFields(row);
    let phase = row.word(1, ExecutionPhase::parse)?;
    let graph = TransitionActions {
        members,
        wanted: OutcomeDemand::of_execution(phase, &row.id(3)?, row.opt_id(5)?.as_ref()),
    };
    let event = if row.flag(2)? {
        EventStatus::Failed
    } else if graph.is_settled() {
        EventStatus::Completed
    } else {
        EventStatus::Processing
    };
    let (accept_no, definition) = (row.accept_no(0)?, row.definition()?);
    Ok(Some(TouchedTransition { graph, accept_no, event_id, event, phase, definition, unserved }))
}

/// The actions of a transition, with the event that caused it; each also with its queue.
fn read_members(
    connection: &Connection,
    key: &ActionKey,
    alone: Option<&Name>,
    mut show: impl FnMut(&Name, &str),
) -> SqliteResult<Option<(BTreeMap<Name, TransitionMember>, EventId)>> {
    const READ_MEMBERS: &str = "
        SELECT action, ordinal, needs, status, epoch, settled_at, closing, undoes, queue, event_id
        FROM actions WHERE tenant = ?1 AND execution_id = ?2 AND seq = ?3 AND action >= ?4 AND action <= ?5";
    // Names are letters, digits and a few signs: all of them lie between these two.
    let (low, high) = alone.map_or(("", "~"), |action| (action.as_str(), action.as_str()));
    let ActionKey { execution, seq, .. } = key;
    let (mut members, mut event) = (BTreeMap::new(), None);
    let mut read = connection.prepare_cached(READ_MEMBERS)?;
    let mut rows = read.query((execution.tenant.as_str(), execution.execution.as_str(), seq.0, low, high))?;
    while let Some(row) = rows.next()? {
        let row = SqliteFields(row);
        let member = TransitionMember {
            ordinal: row.small(1)?,
            needs: row.needs()?,
            status: row.word(3, ActionStatus::parse)?,
            epoch: Epoch(row.int(4)?),
            settled_at: row.opt_time(5)?,
            closing: row.flag(6)?,
            undoes: row.opt_id(7)?,
        };
        let action = row.id(0)?;
        show(&action, row.text(8)?);
        event = Some(row.event_id(9)?);
        members.insert(action, member);
    }
    Ok(event.map(|event| (members, event)))
}

/// Writes the new state of an action after an outcome.
pub(crate) fn write_outcome(
    connection: &Connection,
    key: &ActionKey,
    becomes: SettledState,
    outcome: &SettleOutcome,
    now: Timestamp,
) -> SqliteResult<()> {
    let (result, error, handled) = match outcome {
        SettleOutcome::Succeeded { result, .. } => (Some(result), None, false),
        SettleOutcome::Retry { error, .. } => (None, Some(error), false),
        SettleOutcome::Failed { error, then } => (None, Some(error), param::handling_column(then.handling())),
        SettleOutcome::Postponed { error, .. } => (None, error.as_ref(), false),
        SettleOutcome::Awaiting { .. } => (None, None, false),
    };
    let settle = |status| settle_action(connection, key, status, result, error, handled, now);
    match becomes {
        SettledState::Succeeded | SettledState::Failed | SettledState::Cancelled | SettledState::Skipped => {
            settle(becomes.status())
        }
        SettledState::Ready(at) => ready_again(connection, key, at, error, 0),
        SettledState::Postponed(at) => ready_again(connection, key, at, error, 1),
        SettledState::Awaiting(until) => await_outcome(connection, key, until),
        SettledState::Closing => close_action(connection, key, error),
    }
}

/// The performing worker stays on record.
fn settle_action(
    connection: &Connection,
    key: &ActionKey,
    status: ActionStatus,
    result: Option<&RawJson>,
    error: Option<&RawJson>,
    handled: bool,
    now: Timestamp,
) -> SqliteResult<()> {
    const SETTLE_ACTION: &str = "
        UPDATE actions SET
            status = ?5,
            result = coalesce(?6, result),
            error = CASE WHEN ?5 = 'succeeded' THEN NULL ELSE coalesce(?7, error) END,
            handled = ?8,
            settled_at = ?9,
            due_at = NULL, expires_at = NULL, attempt_until = NULL, closing = 0
        WHERE tenant = ?1 AND execution_id = ?2 AND seq = ?3 AND action = ?4";
    let (tenant, execution, seq, action) = action_columns(key);
    connection.prepare_cached(SETTLE_ACTION)?.execute((
        tenant,
        execution,
        seq,
        action,
        status.as_str(),
        result.map(RawJson::as_str),
        error.map(RawJson::as_str),
        handled,
        now.as_millis(),
    ))?;
    Ok(())
}

pub(crate) fn skip_action(connection: &Connection, key: &ActionKey, now: Timestamp) -> SqliteResult<()> {
    settle_action(connection, key, ActionStatus::Skipped, None, None, false, now)
}

/// A person supplies the result.
pub(crate) fn succeed_action(
    connection: &Connection,
    key: &ActionKey,
    result: &RawJson,
    now: Timestamp,
) -> SqliteResult<()> {
    settle_action(connection, key, ActionStatus::Succeeded, Some(result), None, false, now)
}

/// `uncounted` attempts are subtracted. The previous worker's lease is cleared.
fn ready_again(
    connection: &Connection,
    key: &ActionKey,
    at: Timestamp,
    error: Option<&RawJson>,
    uncounted: i64,
) -> SqliteResult<()> {
    const READY_AGAIN: &str = "
        UPDATE actions SET
            status = 'ready', due_at = ?5, worker_id = NULL, attempt_until = NULL,
            error = coalesce(?6, error), handled = 0,
            attempts = max(attempts - ?7, 0),
            expires_at = ready_at + CASE WHEN attempts > ?7 THEN close_ms
                ELSE coalesce(min(start_ms, close_ms), start_ms, close_ms) END
        WHERE tenant = ?1 AND execution_id = ?2 AND seq = ?3 AND action = ?4";
    let (tenant, execution, seq, action) = action_columns(key);
    let error = error.map(RawJson::as_str);
    let ready = (tenant, execution, seq, action, at.as_millis(), error, uncounted);
    connection.prepare_cached(READY_AGAIN)?.execute(ready)?;
    Ok(())
}

fn await_outcome(connection: &Connection, key: &ActionKey, until: Option<Timestamp>) -> SqliteResult<()> {
    const AWAIT_OUTCOME: &str = "
        UPDATE actions SET status = 'awaiting', awaited = 1, queue = 'engine:' || tenant, due_at = ?5
        WHERE tenant = ?1 AND execution_id = ?2 AND seq = ?3 AND action = ?4";
    let (tenant, execution, seq, action) = action_columns(key);
    let until = until.map(Timestamp::as_millis);
    connection.prepare_cached(AWAIT_OUTCOME)?.execute((tenant, execution, seq, action, until))?;
    Ok(())
}

/// The action has failed, and its failure is not reported yet.
fn close_action(connection: &Connection, key: &ActionKey, error: Option<&RawJson>) -> SqliteResult<()> {
    const CLOSE_ACTION: &str = "
        UPDATE actions SET
            status = 'waiting', closing = 1, queue = 'engine:' || tenant, error = ?5, handled = 1,
            worker_id = NULL, due_at = NULL, attempt_until = NULL
        WHERE tenant = ?1 AND execution_id = ?2 AND seq = ?3 AND action = ?4";
    let (tenant, execution, seq, action) = action_columns(key);
    let error = error.map(RawJson::as_str);
    connection.prepare_cached(CLOSE_ACTION)?.execute((tenant, execution, seq, action, error))?;
    Ok(())
}

/// It waits for these, also if it was on standby.
pub(crate) fn link_action(connection: &Connection, key: &ActionKey, needs: &[Name]) -> SqliteResult<()> {
    const LINK_ACTION: &str = "
        UPDATE actions SET status = 'waiting', settled_at = NULL, needs = ?5
        WHERE tenant = ?1 AND execution_id = ?2 AND seq = ?3 AND action = ?4";
    let (tenant, execution, seq, action) = action_columns(key);
    connection.prepare_cached(LINK_ACTION)?.execute((
        tenant,
        execution,
        seq,
        action,
        encode_names(needs)?,
    ))?;
    Ok(())
}

/// It is ready from now on: its schedule begins.
pub(crate) fn free_action(connection: &Connection, key: &ActionKey, now: Timestamp) -> SqliteResult<()> {
    const FREE_ACTION: &str = "
        UPDATE actions SET
            status = 'ready', due_at = ?5, ready_at = ?5,
            expires_at = ?5 + CASE WHEN attempts > 0 THEN close_ms
                ELSE coalesce(min(start_ms, close_ms), start_ms, close_ms) END
        WHERE tenant = ?1 AND execution_id = ?2 AND seq = ?3 AND action = ?4";
    let (tenant, execution, seq, action) = action_columns(key);
    connection.prepare_cached(FREE_ACTION)?.execute((tenant, execution, seq, action, now.as_millis()))?;
    Ok(())
}

/// The same, and leased in the same statement.
pub(crate) fn free_leased(
    connection: &Connection,
    key: &ActionKey,
    worker: &WorkerId,
    grant: &LeaseGrant,
    now: Timestamp,
) -> SqliteResult<()> {
    const FREE_LEASED: &str = "
        UPDATE actions SET
            status = 'leased', epoch = epoch + 1, attempts = attempts + (NOT closing), worker_id = ?6,
            ready_at = ?5,
            due_at = ?5 + coalesce(min(heartbeat_ms, attempt_ms), heartbeat_ms, attempt_ms, ?7),
            attempt_until = ?5 + attempt_ms
        WHERE tenant = ?1 AND execution_id = ?2 AND seq = ?3 AND action = ?4";
    let (tenant, execution, seq, action) = action_columns(key);
    let (now, ttl) = (now.as_millis(), param::millis(grant.ttl));
    let leased = (tenant, execution, seq, action, now, worker.as_str(), ttl);
    connection.prepare_cached(FREE_LEASED)?.execute(leased)?;
    Ok(())
}
