//! One item of a batch: the verdict on it, and its rows if it is accepted.
//!
//! Items are judged and written one after the other in one transaction, so each sees the writes of the ones
//! before it. A refused item has written nothing.

use millstream_model::id::{AcceptNo, EventId, ExecutionKey, TenantId};
use millstream_model::raw::RawJson;
use millstream_model::status::EventStatus;
use millstream_model::time::Timestamp;
use millstream_store::acceptance::{
    self, AcceptanceFacts, KnownStart, SignalJudgement, UsedKey, used_key_status,
};
use millstream_store::event_log::{
    AppendRequest, Appended, EventSubmission, ExecutionStart, IdempotencyKey, SignalSubmission,
};
use rusqlite::{CachedStatement, Connection};

use crate::accept::EventAcceptance;
use crate::commit_rows::{insert_timer, insert_transition};
use crate::decode::SqliteFields;
use crate::errors::{SqliteFailure, SqliteResult};
use crate::graph_rows::{feed_transitions, insert_graph};
use crate::param::{FreeText, free_text};
use crate::relations::find_correlated;
use crate::signals::{SignalReceiver, deliver_signals, insert_signal, is_buffered};

pub(crate) struct AppendBatch<'c> {
    connection: &'c Connection,
    acceptance: EventAcceptance<'c>,
    is_execution: CachedStatement<'c>,
    now: Timestamp,
}

impl<'c> AppendBatch<'c> {
    pub(crate) fn begin(connection: &'c Connection, now: Timestamp) -> SqliteResult<Self> {
        const IS_EXECUTION: &str =
            "SELECT EXISTS (SELECT 1 FROM executions WHERE tenant = ?1 AND execution_id = ?2)";
        Ok(Self {
            connection,
            acceptance: EventAcceptance::begin(connection)?,
            is_execution: connection.prepare_cached(IS_EXECUTION)?,
            now,
        })
    }

    pub(crate) fn append_one(&mut self, item: &AppendRequest) -> SqliteResult<Appended> {
        match item {
            AppendRequest::Start(execution) => self.start_execution(execution),
            AppendRequest::Event(event) => self.append_event(event),
            AppendRequest::Signal(signal) => self.accept_signal(signal),
        }
    }

    pub(crate) fn finish(self) -> SqliteResult<()> {
        self.acceptance.store_last_number()
    }

    fn append_event(&mut self, event: &EventSubmission) -> SqliteResult<Appended> {
        let judged = match event.idempotency {
            Some(_) => acceptance::judge_event(self, event)?,
            // Without a key the insert itself detects an id that exists.
            None => acceptance::judge_unseen_event(self, event)?,
        };
        if let Some(answer) = judged {
            return Ok(answer);
        }
        let key = &event.execution;
        match self.acceptance.accept_waiting(event, self.now)? {
            Some(accept_no) => {
                self.use_key(&key.tenant, event.idempotency.as_ref(), event.event_id)?;
                Ok(Appended::Accepted { accept_no })
            }
            None => {
                let status = used_status(self.connection, &key.tenant, event.event_id)?;
                Ok(Appended::Repeat { event_id: event.event_id, status })
            }
        }
    }

    fn start_execution(&mut self, new: &ExecutionStart) -> SqliteResult<Appended> {
        if let Some(answer) = acceptance::judge_start(self, new)? {
            return Ok(answer);
        }
        let accept_no = self.acceptance.accept_decided(&new.start, new.state.at)?;
        self.use_key(&new.key.tenant, new.start.idempotency.as_ref(), new.start.event_id)?;
        insert_execution(self.connection, new, accept_no)?;
        let transition = &new.applied.transition;
        let decision = RawJson::from_value(&transition.decision);
        insert_transition(self.connection, &new.key, transition, &decision, None, new.state.at)?;
        for timer in &transition.decision.timers {
            insert_timer(self.connection, &new.key, timer)?;
        }
        if let Some(rows) = &new.graph {
            insert_graph(self.connection, &new.key, rows)?;
            feed_transitions(self.connection, &new.key, new.state.seq, new.state.seq, self.now)?;
        }
        for event in &new.events {
            self.acceptance.accept_own(event, self.now)?;
        }
        if let Some(correlation) = correlation_of(new) {
            let (execution, definition) = (&new.key, &new.definition.name);
            let receiver = SignalReceiver { execution, definition, correlation };
            deliver_signals(self.connection, &mut self.acceptance, &receiver, self.now)?;
        }
        Ok(Appended::Accepted { accept_no })
    }

    /// An event for the only execution with its correlation, or a buffered row.
    fn accept_signal(&mut self, signal: &SignalSubmission) -> SqliteResult<Appended> {
        let appended = match acceptance::judge_signal(self, signal)? {
            SignalJudgement::Answer(answer) => return Ok(answer),
            SignalJudgement::Buffer => {
                insert_signal(self.connection, signal, self.now)?;
                Appended::Buffered
            }
            SignalJudgement::Deliver(execution) => {
                let accept_no = self.acceptance.accept_own(&signal.as_event(&execution), self.now)?;
                Appended::Delivered { execution, accept_no }
            }
        };
        self.use_key(&signal.tenant, signal.idempotency.as_ref(), signal.event_id)?;
        Ok(appended)
    }

    fn use_key(
        &self,
        tenant: &TenantId,
        key: Option<&IdempotencyKey>,
        event_id: EventId,
    ) -> SqliteResult<()> {
        match key {
            Some(key) => insert_key(self.connection, tenant, key, event_id, self.now),
            None => Ok(()),
        }
    }
}

impl AcceptanceFacts for AppendBatch<'_> {
    type Error = SqliteFailure;

    fn used_key(&mut self, tenant: &TenantId, key: &IdempotencyKey) -> SqliteResult<Option<UsedKey>> {
        find_key(self.connection, tenant, key)
    }

    fn event_status(&mut self, tenant: &TenantId, event_id: EventId) -> SqliteResult<Option<EventStatus>> {
        find_status(self.connection, tenant, event_id)
    }

    fn has_execution(&mut self, key: &ExecutionKey) -> SqliteResult<bool> {
        let key = (key.tenant.as_str(), key.execution.as_str());
        Ok(self.is_execution.query_row(key, |row| row.get(0))?)
    }

    fn known_start(&mut self, execution: &ExecutionKey) -> SqliteResult<Option<KnownStart>> {
        find_start(self.connection, execution)
    }

    fn is_buffered(&mut self, tenant: &TenantId, signal: EventId) -> SqliteResult<bool> {
        is_buffered(self.connection, tenant, signal)
    }

    fn signal_receivers(&mut self, signal: &SignalSubmission) -> SqliteResult<Vec<ExecutionKey>> {
        let definition = signal.definition.as_ref();
        let found =
            find_correlated(self.connection, &signal.tenant, &signal.correlation, definition, usize::MAX)?;
        Ok(found.into_iter().map(|(execution, _)| execution).collect())
    }
}

/// The first use of this key.
pub(crate) fn find_key(
    connection: &Connection,
    tenant: &TenantId,
    idempotency: &IdempotencyKey,
) -> SqliteResult<Option<UsedKey>> {
    const FIND_KEY: &str =
        "SELECT request_hash, event_id FROM idempotency_keys WHERE tenant = ?1 AND key = ?2";
    let mut find = connection.prepare_cached(FIND_KEY)?;
    let mut rows = find.query((tenant.as_str(), FreeText(&idempotency.key)))?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let (hash, event_id) = (SqliteFields(row).hash(0)?, SqliteFields(row).event_id(1)?);
    let status = used_status(connection, tenant, event_id)?;
    Ok(Some(UsedKey { request_hash: hash.to_vec(), event_id, status }))
}

fn used_status(connection: &Connection, tenant: &TenantId, event_id: EventId) -> SqliteResult<EventStatus> {
    let event = find_status(connection, tenant, event_id)?;
    let is_buffered = event.is_none() && is_buffered(connection, tenant, event_id)?;
    Ok(used_key_status(event, is_buffered))
}

fn find_status(
    connection: &Connection,
    tenant: &TenantId,
    event_id: EventId,
) -> SqliteResult<Option<EventStatus>> {
    const FIND_STATUS: &str = "SELECT status FROM event_records WHERE tenant = ?1 AND event_id = ?2";
    let mut find = connection.prepare_cached(FIND_STATUS)?;
    let mut rows = find.query((tenant.as_str(), event_id.0.as_bytes()))?;
    rows.next()?.map(|row| SqliteFields(row).word(0, EventStatus::parse)).transpose()
}

/// The hash of an execution's start request, and its start event.
fn find_start(connection: &Connection, key: &ExecutionKey) -> SqliteResult<Option<KnownStart>> {
    const FIND_START: &str = "
        SELECT x.input_hash, e.event_id
        FROM executions AS x
        CROSS JOIN events AS e ON e.accept_no = x.position
        WHERE x.tenant = ?1 AND x.execution_id = ?2";
    let mut find = connection.prepare_cached(FIND_START)?;
    let mut rows = find.query((key.tenant.as_str(), key.execution.as_str()))?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let (hash, event_id) = (SqliteFields(row).hash(0)?, SqliteFields(row).event_id(1)?);
    Ok(Some(KnownStart { input_hash: hash.to_vec(), event_id: Some(event_id) }))
}

fn insert_key(
    connection: &Connection,
    tenant: &TenantId,
    idempotency: &IdempotencyKey,
    event_id: EventId,
    now: Timestamp,
) -> SqliteResult<()> {
    const INSERT_KEY: &str = "
        INSERT INTO idempotency_keys (tenant, key, request_hash, event_id, created_at)
        VALUES (?1, ?2, ?3, ?4, ?5)";
    connection.prepare_cached(INSERT_KEY)?.execute((
        tenant.as_str(),
        FreeText(&idempotency.key),
        &idempotency.request_hash,
        event_id.0.as_bytes(),
        now.as_millis(),
    ))?;
    Ok(())
}

/// Signals look only for unfinished executions.
fn correlation_of(new: &ExecutionStart) -> Option<&str> {
    new.state.correlation.as_deref().filter(|_| !new.state.phase.is_ended())
}

fn insert_execution(connection: &Connection, new: &ExecutionStart, position: AcceptNo) -> SqliteResult<()> {
    const INSERT_EXECUTION: &str = "
        INSERT INTO executions (tenant, execution_id, definition, version, input_hash, position, seq, state,
                                phase, snapshot, snapshot_seq, created_at, updated_at, ended_at, parent_id,
                                parent_close, correlation)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?7, ?11, ?11, ?12, ?13, ?14, ?15)";
    let (at, parent) = (new.state.at.as_millis(), new.state.parent.as_ref());
    connection.prepare_cached(INSERT_EXECUTION)?.execute((
        new.key.tenant.as_str(),
        new.key.execution.as_str(),
        new.definition.name.as_str(),
        new.definition.version,
        &new.input_hash,
        position.0,
        new.state.seq.0,
        new.state.state.as_str(),
        new.state.phase.as_str(),
        RawJson::from_value(&new.state).as_str(),
        at,
        new.state.phase.is_ended().then_some(at),
        parent.map(|parent| parent.execution.as_str()),
        parent.map(|parent| parent.close.as_str()),
        free_text(correlation_of(new)),
    ))?;
    Ok(())
}
