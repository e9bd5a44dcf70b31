//! One item of a batch: the verdict on it, and its rows if it is accepted.
//!
//! Items are judged and written one after the other in one transaction, so each sees the writes of the ones
//! before it. A refused item has written nothing.

use millstream_model::id::{AcceptNo, EventId, ExecutionKey, TenantId};
use millstream_model::raw::RawJson;
use millstream_model::status::EventStatus;
use millstream_model::time::Timestamp;
use millstream_store::event_log::{
    AppendRequest, Appended, EventSubmission, ExecutionStart, IdempotencyKey, SignalSubmission,
};
use rusqlite::{CachedStatement, Connection};

use crate::accept::EventAcceptance;
use crate::commit_rows::{insert_timer, insert_transition};
use crate::decode::SqliteFields;
use crate::errors::SqliteResult;
use crate::graph_rows::{feed_transitions, insert_graph};
use crate::param::{FreeText, free_text};
use crate::relations::find_correlated;
use crate::signals::{SignalReceiver, as_event, deliver_signals, insert_signal, is_buffered};

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
        // Without a key the insert itself detects every conflict.
        if event.idempotency.is_some()
            && let Some(repeat) = self.find_repeat(event)?
        {
            return Ok(repeat);
        }
        let key = &event.execution;
        let is_there: bool =
            self.is_execution.query_row((key.tenant.as_str(), key.execution.as_str()), |row| row.get(0))?;
        if !is_there {
            return Ok(Appended::NoExecution);
        }
        match self.acceptance.accept_waiting(event, self.now)? {
            Some(accept_no) => {
                self.use_key(&key.tenant, event.idempotency.as_ref(), event.event_id)?;
                Ok(Appended::Accepted { accept_no })
            }
            None => self.repeat(&key.tenant, event.event_id),
        }
    }

    fn start_execution(&mut self, new: &ExecutionStart) -> SqliteResult<Appended> {
        if let Some(repeat) = self.find_repeat(&new.start)? {
            return Ok(repeat);
        }
        if let Some((hash, event_id)) = find_start(self.connection, &new.key)? {
            return if hash == new.input_hash {
                self.repeat(&new.key.tenant, event_id)
            } else {
                Ok(Appended::Mismatch)
            };
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
        let (tenant, event_id) = (&signal.tenant, signal.event_id);
        if let Some(status) = find_status(self.connection, tenant, event_id)? {
            return Ok(Appended::Repeat { event_id, status });
        }
        if is_buffered(self.connection, tenant, event_id)? {
            return Ok(Appended::Repeat { event_id, status: EventStatus::Pending });
        }
        if let Some(idempotency) = &signal.idempotency
            && let Some(known) = by_key(self.connection, tenant, idempotency)?
        {
            return Ok(known);
        }
        let found = find_correlated(
            self.connection,
            tenant,
            &signal.correlation,
            signal.definition.as_ref(),
            usize::MAX,
        )?;
        let appended = match &found[..] {
            [] => {
                insert_signal(self.connection, signal, self.now)?;
                Appended::Buffered
            }
            [(execution, _)] => {
                let accept_no = self.acceptance.accept_own(&as_event(signal, execution), self.now)?;
                Appended::Delivered { execution: execution.clone(), accept_no }
            }
            [..] => return Ok(Appended::Ambiguous { executions: found.len() }),
        };
        self.use_key(tenant, signal.idempotency.as_ref(), event_id)?;
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

    /// By its id, when the batch is sent a second time after its outcome was in doubt; or by its key.
    fn find_repeat(&self, event: &EventSubmission) -> SqliteResult<Option<Appended>> {
        let tenant = &event.execution.tenant;
        if let Some(status) = find_status(self.connection, tenant, event.event_id)? {
            return Ok(Some(Appended::Repeat { event_id: event.event_id, status }));
        }
        match &event.idempotency {
            Some(idempotency) => by_key(self.connection, tenant, idempotency),
            None => Ok(None),
        }
    }

    fn repeat(&self, tenant: &TenantId, event_id: EventId) -> SqliteResult<Appended> {
        repeat(self.connection, tenant, event_id)
    }
}

/// The result of an earlier request with this key.
pub(crate) fn by_key(
    connection: &Connection,
    tenant: &TenantId,
    idempotency: &IdempotencyKey,
) -> SqliteResult<Option<Appended>> {
    const FIND_KEY: &str =
        "SELECT request_hash, event_id FROM idempotency_keys WHERE tenant = ?1 AND key = ?2";
    let mut find = connection.prepare_cached(FIND_KEY)?;
    let mut rows = find.query((tenant.as_str(), FreeText(&idempotency.key)))?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let (hash, event_id) = (SqliteFields(row).hash(0)?, SqliteFields(row).event_id(1)?);
    if hash != idempotency.request_hash {
        return Ok(Some(Appended::Mismatch));
    }
    repeat(connection, tenant, event_id).map(Some)
}

/// Without an event row it is a buffered signal, or an event that was decided and removed by retention.
fn repeat(connection: &Connection, tenant: &TenantId, event_id: EventId) -> SqliteResult<Appended> {
    let status = match find_status(connection, tenant, event_id)? {
        Some(status) => status,
        None if is_buffered(connection, tenant, event_id)? => EventStatus::Pending,
        None => EventStatus::Completed,
    };
    Ok(Appended::Repeat { event_id, status })
}

pub(crate) fn find_status(
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
fn find_start(connection: &Connection, key: &ExecutionKey) -> SqliteResult<Option<([u8; 32], EventId)>> {
    const FIND_START: &str = "
        SELECT x.input_hash, e.event_id
        FROM executions AS x
        CROSS JOIN events AS e ON e.accept_no = x.position
        WHERE x.tenant = ?1 AND x.execution_id = ?2";
    let mut find = connection.prepare_cached(FIND_START)?;
    let mut rows = find.query((key.tenant.as_str(), key.execution.as_str()))?;
    rows.next()?.map(|row| Ok((SqliteFields(row).hash(0)?, SqliteFields(row).event_id(1)?))).transpose()
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
