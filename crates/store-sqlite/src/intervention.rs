//! Decisions about stuck work, each one recorded in the transaction that carries it out.

use std::collections::BTreeMap;

use millstream_model::id::{AcceptNo, ActionKey, EventId, ExecutionKey, Name, Seq, TenantId};
use millstream_model::incident::NewIncident;
use millstream_model::raw::RawJson;
use millstream_model::status::{ActionStatus, EventStatus, ExecutionPhase};
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::incidents::opens_incident;
use millstream_store::intervention::{
    DecisionRecord, EventBurial, ExecutionPause, Interventions, RecordedDecision, RetryVerdict,
};
use millstream_store::reopening::{ReopenCandidate, choose_reopened};
use millstream_store::status_text;
use rusqlite::{Connection, OptionalExtension};

use crate::connect::SqliteStore;
use crate::decode::SqliteFields;
use crate::errors::SqliteResult;
use crate::incident_rows::{IncidentOpening, open_incident, resolve_of_event};
use crate::param::{MessageText, action_columns, message_text};

#[async_trait::async_trait]
impl Interventions for SqliteStore {
    async fn bury_events(&self, burials: &[EventBurial], now: Timestamp) -> StoreResult<()> {
        if burials.is_empty() {
            return Ok(());
        }
        let burials = burials.to_vec();
        self.write_transaction(move |connection| {
            for burial in &burials {
                if bury_event(connection, burial, now)? {
                    pause_active(connection, &burial.execution, &burial.error, now)?;
                    let by = DecisionRecord { actor: None, reason: Some(burial.error.clone()) };
                    record_decision(connection, &burial.execution, Some(burial.event_id), "bury", &by, now)?;
                    open_incident_of(connection, burial, now)?;
                }
            }
            Ok(())
        })
        .await
    }

    async fn pause_executions(&self, pauses: &[ExecutionPause], now: Timestamp) -> StoreResult<()> {
        const PAUSE: &str = "
            UPDATE executions SET paused_reason = ?3, updated_at = ?4
            WHERE tenant = ?1 AND execution_id = ?2 AND paused_reason IS NULL";
        if pauses.is_empty() {
            return Ok(());
        }
        let pauses = pauses.to_vec();
        self.write_transaction(move |connection| {
            for ExecutionPause { execution: key, incident } in &pauses {
                let reason = &incident.reason;
                let pause =
                    (key.tenant.as_str(), key.execution.as_str(), MessageText(reason), now.as_millis());
                if connection.prepare_cached(PAUSE)?.execute(pause)? > 0 {
                    let by = DecisionRecord { actor: None, reason: Some(reason.clone()) };
                    record_decision(connection, key, None, "pause", &by, now)?;
                }
                open_unreadable(connection, key, incident, now)?;
            }
            Ok(())
        })
        .await
    }

    async fn retry_event(
        &self,
        tenant: &TenantId,
        event: EventId,
        by: &DecisionRecord,
        now: Timestamp,
    ) -> StoreResult<RetryVerdict> {
        let (tenant, by) = (tenant.clone(), by.clone());
        self.write_transaction(move |connection| {
            let Some(found) = find_event(connection, &tenant, event)? else {
                return Ok(RetryVerdict::NotFound);
            };
            match found.status {
                EventStatus::Dead => {
                    reopen_event(connection, found.accept_no)?;
                    return_to_mailbox(connection, found.accept_no)?;
                }
                EventStatus::Failed => {
                    reopen_event(connection, found.accept_no)?;
                    reopen_actions(connection, &found, now)?;
                }
                status @ (EventStatus::Pending
                | EventStatus::Deferred
                | EventStatus::Processing
                | EventStatus::Completed
                | EventStatus::Rejected) => return Ok(RetryVerdict::NotApplicable { status }),
            }
            resume_execution(connection, &found.execution, now)?;
            record_decision(connection, &found.execution, Some(event), "retry", &by, now)?;
            resolve_of_event(connection, &found.execution, event, &by, now)?;
            Ok(RetryVerdict::Accepted { execution: found.execution })
        })
        .await
    }

    async fn list_decisions(&self, execution: &ExecutionKey) -> StoreResult<Vec<RecordedDecision>> {
        const DECISIONS: &str = "
            SELECT event_id, kind, actor, reason, at FROM decisions
            WHERE tenant = ?1 AND execution_id = ?2 ORDER BY id";
        let execution = execution.clone();
        self.read_transaction(move |connection| {
            let mut read = connection.prepare_cached(DECISIONS)?;
            let mut rows = read.query((execution.tenant.as_str(), execution.execution.as_str()))?;
            let mut decisions = Vec::new();
            while let Some(row) = rows.next()? {
                let row = SqliteFields(row);
                decisions.push(RecordedDecision {
                    event_id: row.opt_event_id("event_id")?,
                    kind: row.text("kind")?.to_owned(),
                    actor: row.opt_text("actor")?,
                    reason: row.opt_text("reason")?,
                    at: row.time("at")?,
                });
            }
            Ok(decisions)
        })
        .await
    }
}

/// Pause an execution that is active and not paused; the first pause sets the reason.
pub(crate) fn pause_active(
    connection: &Connection,
    execution: &ExecutionKey,
    reason: &str,
    now: Timestamp,
) -> SqliteResult<()> {
    const PAUSE_ACTIVE: &str = "
        UPDATE executions SET paused_reason = ?3, updated_at = ?4
        WHERE tenant = ?1 AND execution_id = ?2 AND phase = 'active' AND paused_reason IS NULL";
    connection.prepare_cached(PAUSE_ACTIVE)?.execute((
        execution.tenant.as_str(),
        execution.execution.as_str(),
        MessageText(reason),
        now.as_millis(),
    ))?;
    Ok(())
}

/// Returns whether it was still undecided.
fn bury_event(connection: &Connection, burial: &EventBurial, now: Timestamp) -> SqliteResult<bool> {
    const UNBOX: &str = "
        DELETE FROM mailbox WHERE tenant = ?1 AND execution_id = ?2 AND accept_no = (
            SELECT accept_no FROM events WHERE tenant = ?1 AND event_id = ?3)
        RETURNING accept_no";
    const BURY_EVENT: &str =
        "UPDATE events SET verdict = 'dead', error = ?2, closed_at = ?3 WHERE accept_no = ?1";
    let key = &burial.execution;
    let place = (key.tenant.as_str(), key.execution.as_str(), burial.event_id.0.as_bytes());
    let number: Option<i64> =
        connection.prepare_cached(UNBOX)?.query_row(place, |row| row.get(0)).optional()?;
    let Some(number) = number else { return Ok(false) };
    connection.prepare_cached(BURY_EVENT)?.execute((number, MessageText(&burial.error), now.as_millis()))?;
    Ok(true)
}

fn open_incident_of(connection: &Connection, burial: &EventBurial, now: Timestamp) -> SqliteResult<()> {
    const READ_EXECUTION: &str =
        "SELECT definition, version, phase FROM executions WHERE tenant = ?1 AND execution_id = ?2";
    let execution = &burial.execution;
    let mut read = connection.prepare_cached(READ_EXECUTION)?;
    let mut rows = read.query((execution.tenant.as_str(), execution.execution.as_str()))?;
    let Some(row) = rows.next()? else { return Ok(()) };
    if !opens_incident(SqliteFields(row).word("phase", ExecutionPhase::parse)?, None) {
        return Ok(());
    }
    let opening = IncidentOpening {
        execution,
        definition: &SqliteFields(row).definition()?,
        event_id: burial.event_id,
        action: None,
        incident: &burial.incident,
    };
    open_incident(connection, &opening, now)
}

/// For an undecodable execution, of the event that waits first, or of the last one if none waits. An
/// execution with an open incident gets no second one.
fn open_unreadable(
    connection: &Connection,
    execution: &ExecutionKey,
    incident: &NewIncident,
    now: Timestamp,
) -> SqliteResult<()> {
    const READ_WAITING: &str = "
        SELECT x.definition, x.version,
               coalesce((SELECT m.event_id FROM mailbox AS m
                         WHERE m.tenant = ?1 AND m.execution_id = ?2 ORDER BY m.accept_no LIMIT 1),
                        (SELECT e.event_id FROM events AS e
                         WHERE e.tenant = ?1 AND e.execution_id = ?2 ORDER BY e.accept_no DESC LIMIT 1))
                   AS event_id
        FROM executions AS x
        WHERE x.tenant = ?1 AND x.execution_id = ?2 AND NOT EXISTS (
            SELECT 1 FROM incidents AS i
            WHERE i.tenant = ?1 AND i.execution_id = ?2 AND i.resolution IS NULL)";
    let mut read = connection.prepare_cached(READ_WAITING)?;
    let mut rows = read.query((execution.tenant.as_str(), execution.execution.as_str()))?;
    let Some(row) = rows.next()? else { return Ok(()) };
    let Some(event_id) = SqliteFields(row).opt_event_id("event_id")? else { return Ok(()) };
    let definition = SqliteFields(row).definition()?;
    let opening = IncidentOpening { execution, definition: &definition, event_id, action: None, incident };
    open_incident(connection, &opening, now)
}

/// An event that a decision concerns.
pub(crate) struct StuckEvent {
    pub(crate) execution: ExecutionKey,
    pub(crate) accept_no: AcceptNo,
    pub(crate) status: EventStatus,
    /// Of its transition.
    seq: Option<Seq>,
}

pub(crate) fn find_event(
    connection: &Connection,
    tenant: &TenantId,
    event: EventId,
) -> SqliteResult<Option<StuckEvent>> {
    const FIND_EVENT: &str = "
        SELECT tenant, execution_id, accept_no, status, seq FROM event_records
        WHERE tenant = ?1 AND event_id = ?2";
    let mut find = connection.prepare_cached(FIND_EVENT)?;
    let mut rows = find.query((tenant.as_str(), event.0.as_bytes()))?;
    let found = rows.next()?.map(|row| {
        let row = SqliteFields(row);
        Ok(StuckEvent {
            execution: row.execution()?,
            accept_no: row.accept_no("accept_no")?,
            status: row.word("status", EventStatus::parse)?,
            seq: row.opt_seq("seq")?,
        })
    });
    found.transpose()
}

/// Removes the verdict. Attempts count decisions, so they restart only for an event that is to be decided
/// again.
pub(crate) fn reopen_event(connection: &Connection, accept_no: AcceptNo) -> SqliteResult<()> {
    const REOPEN_EVENT: &str = "
        UPDATE events SET attempts = CASE verdict WHEN 'dead' THEN 0 ELSE attempts END,
                          verdict = NULL, error = NULL, closed_at = NULL
        WHERE accept_no = ?1";
    connection.prepare_cached(REOPEN_EVENT)?.execute([accept_no.0])?;
    Ok(())
}

/// Back to its place in the mailbox.
pub(crate) fn return_to_mailbox(connection: &Connection, accept_no: AcceptNo) -> SqliteResult<()> {
    const WAIT_AGAIN: &str = "
        INSERT INTO mailbox (tenant, execution_id, accept_no, event_id, bytes, cancels, created_at)
        SELECT tenant, execution_id, accept_no, event_id, octet_length(payload),
               name = 'millstream.cancel' OR name = 'millstream.fail', created_at
        FROM events WHERE accept_no = ?1";
    connection.prepare_cached(WAIT_AGAIN)?.execute([accept_no.0])?;
    Ok(())
}

fn reopen_actions(connection: &Connection, found: &StuckEvent, now: Timestamp) -> SqliteResult<()> {
    let Some(seq) = found.seq else { return Ok(()) };
    let reopened = choose_reopened(&read_settled(connection, &found.execution, seq)?);
    let key = |action| ActionKey { execution: found.execution.clone(), seq, action };
    for action in reopened.ready {
        reopen_action(connection, &key(action), None, now)?;
    }
    for action in reopened.waiting {
        wait_for_others(connection, &key(action))?;
    }
    Ok(())
}

/// From the beginning, perhaps with another input, which is another revision.
pub(crate) fn reopen_action(
    connection: &Connection,
    key: &ActionKey,
    input: Option<&RawJson>,
    now: Timestamp,
) -> SqliteResult<()> {
    const REOPEN_ACTION: &str = "
        UPDATE actions SET
            status = 'ready', due_at = ?5, ready_at = ?5, worker_id = NULL, attempts = 0, error = NULL,
            settled_at = NULL,
            input = coalesce(?6, input),
            revision = revision + (?6 IS NOT NULL),
            expires_at = ?5 + coalesce(min(start_ms, close_ms), start_ms, close_ms)
        WHERE tenant = ?1 AND execution_id = ?2 AND seq = ?3 AND action = ?4";
    let (tenant, execution, seq, action) = action_columns(key);
    let input = input.map(RawJson::as_str);
    let reopened = (tenant, execution, seq, action, now.as_millis(), input);
    connection.prepare_cached(REOPEN_ACTION)?.execute(reopened)?;
    Ok(())
}

/// A dependency is open again, so the action waits again.
pub(crate) fn wait_for_others(connection: &Connection, key: &ActionKey) -> SqliteResult<()> {
    const WAIT_FOR_OTHERS: &str = "
        UPDATE actions SET
            status = 'waiting', due_at = NULL, worker_id = NULL, attempts = 0, error = NULL, settled_at = NULL
        WHERE tenant = ?1 AND execution_id = ?2 AND seq = ?3 AND action = ?4";
    connection.prepare_cached(WAIT_FOR_OTHERS)?.execute(action_columns(key))?;
    Ok(())
}

/// All actions of a transition.
pub(crate) fn read_settled(
    connection: &Connection,
    execution: &ExecutionKey,
    seq: Seq,
) -> SqliteResult<BTreeMap<Name, ReopenCandidate>> {
    const READ_SETTLED: &str = "
        SELECT action, needs, status, handled FROM actions
        WHERE tenant = ?1 AND execution_id = ?2 AND seq = ?3";
    let mut read = connection.prepare_cached(READ_SETTLED)?;
    let mut rows = read.query((execution.tenant.as_str(), execution.execution.as_str(), seq.0))?;
    let mut settled = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let row = SqliteFields(row);
        let one = ReopenCandidate {
            needs: row.needs()?,
            status: row.word("status", ActionStatus::parse)?,
            handling: row.handling()?,
        };
        settled.insert(row.id("action")?, one);
    }
    Ok(settled)
}

/// Resume unless another event of the execution is dead or failed.
pub(crate) fn resume_execution(
    connection: &Connection,
    execution: &ExecutionKey,
    now: Timestamp,
) -> SqliteResult<()> {
    const RESUME: &str = status_text!(
        "
        UPDATE executions SET paused_reason = NULL, updated_at = ?3
        WHERE tenant = ?1 AND execution_id = ?2 AND NOT EXISTS (
            SELECT 1 FROM events AS e
            WHERE e.tenant = ?1 AND e.execution_id = ?2 AND e.verdict IN ({STUCK_EVENTS}))"
    );
    connection.prepare_cached(RESUME)?.execute((
        execution.tenant.as_str(),
        execution.execution.as_str(),
        now.as_millis(),
    ))?;
    Ok(())
}

pub(crate) fn record_decision(
    connection: &Connection,
    execution: &ExecutionKey,
    event: Option<EventId>,
    kind: &str,
    by: &DecisionRecord,
    now: Timestamp,
) -> SqliteResult<()> {
    const RECORD: &str = "
        INSERT INTO decisions (tenant, execution_id, event_id, kind, actor, reason, at)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    connection.prepare_cached(RECORD)?.execute((
        execution.tenant.as_str(),
        execution.execution.as_str(),
        event.map(|event| *event.0.as_bytes()),
        kind,
        message_text(by.actor.as_deref()),
        message_text(by.reason.as_deref()),
        now.as_millis(),
    ))?;
    Ok(())
}
