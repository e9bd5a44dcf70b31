//! The rows of a settlement that concerns more than one action: all actions of the transition read, and
//! those that change written.

use std::collections::BTreeMap;

use millstream_core::id::{AcceptNo, ActionKey, Epoch, EventId, WorkerId};
use millstream_core::raw::RawJson;
use millstream_core::status::{ActionStatus, EventStatus, Phase};
use millstream_core::time::Timestamp;
use rusqlite::{Connection, params};

use crate::decode::Fields;
use crate::errors::Attempt;
use crate::settle_graph::{Graph, Node};

pub(crate) struct ActionChange {
    pub(crate) key: ActionKey,
    pub(crate) status: ActionStatus,
    pub(crate) result: Option<RawJson>,
    pub(crate) error: Option<RawJson>,
    pub(crate) handled: bool,
    pub(crate) worker: Option<WorkerId>,
    pub(crate) due_at: Option<Timestamp>,
    pub(crate) settled_at: Option<Timestamp>,
    /// Added to epoch and attempts: 1 with a lease.
    pub(crate) leases: i64,
}

impl ActionChange {
    pub(crate) fn settled(key: &ActionKey, status: ActionStatus, now: Timestamp) -> Self {
        Self {
            key: key.clone(),
            status,
            result: None,
            error: None,
            handled: false,
            worker: None,
            due_at: None,
            settled_at: Some(now),
            leases: 0,
        }
    }

    pub(crate) fn ready(key: &ActionKey, at: Timestamp, error: Option<RawJson>) -> Self {
        Self { error, due_at: Some(at), settled_at: None, ..Self::settled(key, ActionStatus::Ready, at) }
    }

    pub(crate) fn lease(key: &ActionKey, worker: &WorkerId, until: Timestamp) -> Self {
        Self {
            status: ActionStatus::Leased,
            worker: Some(worker.clone()),
            leases: 1,
            ..Self::ready(key, until, None)
        }
    }
}

/// All actions of the transition that an action belongs to; `None` when there is none.
pub(crate) fn read_graph(connection: &Connection, key: &ActionKey) -> Attempt<Option<Graph>> {
    const READ_ACTIONS: &str = "
        SELECT action, ordinal, needs, status, epoch, event_id FROM actions
        WHERE tenant = ?1 AND execution_id = ?2 AND seq = ?3";
    let (tenant, execution) = (key.execution.tenant.as_str(), key.execution.execution.as_str());
    let (mut nodes, mut event) = (BTreeMap::new(), None);
    let mut read = connection.prepare_cached(READ_ACTIONS)?;
    let mut rows = read.query((tenant, execution, key.seq.0))?;
    while let Some(row) = rows.next()? {
        let row = Fields(row);
        let node = Node {
            ordinal: row.small("ordinal")?,
            needs: row.needs()?,
            status: row.word("status", ActionStatus::parse)?,
            epoch: Epoch(row.int("epoch")?),
        };
        event = Some(row.event_id("event_id")?);
        nodes.insert(row.id("action")?, node);
    }
    let Some(event) = event else { return Ok(None) };
    let Some((accept_no, phase, is_failed)) = read_event(connection, key, event)? else { return Ok(None) };
    let mut graph = Graph { accept_no, event: EventStatus::Processing, phase, nodes };
    if is_failed {
        graph.event = EventStatus::Failed;
    } else if graph.is_settled() {
        graph.event = EventStatus::Completed;
    }
    Ok(Some(graph))
}

/// The event's number, the phase of its execution, and whether the event has failed.
fn read_event(
    connection: &Connection,
    key: &ActionKey,
    event: EventId,
) -> Attempt<Option<(AcceptNo, Phase, bool)>> {
    const READ_EVENT: &str = "
        SELECT e.accept_no, x.phase, e.verdict IS 'failed'
        FROM executions AS x
        CROSS JOIN events AS e ON e.tenant = x.tenant AND e.event_id = ?3
        WHERE x.tenant = ?1 AND x.execution_id = ?2";
    let (tenant, execution) = (key.execution.tenant.as_str(), key.execution.execution.as_str());
    let mut read = connection.prepare_cached(READ_EVENT)?;
    let mut rows = read.query((tenant, execution, event.0.as_bytes()))?;
    let found = rows.next()?.map(|row| {
        let row = Fields(row);
        Ok((row.accept_no(0)?, row.word(1, Phase::parse)?, row.flag(2)?))
    });
    found.transpose()
}

pub(crate) fn update_action(connection: &Connection, change: &ActionChange) -> Attempt<()> {
    // Who performed it stays on record; who performs it next is somebody else.
    const UPDATE_ACTION: &str = "
        UPDATE actions SET
            status = ?5,
            result = coalesce(?6, result),
            error = ?7,
            handled = ?8,
            worker_id = CASE WHEN ?5 IN ('succeeded', 'failed', 'cancelled') THEN worker_id ELSE ?9 END,
            due_at = ?10,
            settled_at = ?11,
            epoch = epoch + ?12,
            attempts = attempts + ?12
        WHERE tenant = ?1 AND execution_id = ?2 AND seq = ?3 AND action = ?4";
    let ActionKey { execution, seq, action } = &change.key;
    connection.prepare_cached(UPDATE_ACTION)?.execute(params![
        execution.tenant.as_str(),
        execution.execution.as_str(),
        seq.0,
        action.as_str(),
        change.status.as_str(),
        change.result.as_ref().map(RawJson::as_str),
        change.error.as_ref().map(RawJson::as_str),
        change.handled,
        change.worker.as_ref().map(WorkerId::as_str),
        change.due_at.map(Timestamp::as_millis),
        change.settled_at.map(Timestamp::as_millis),
        change.leases,
    ])?;
    Ok(())
}
