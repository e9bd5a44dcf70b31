//! Buffered signals, which wait for an execution with their correlation.
//!
//! A signal and a concurrent start find each other: there is one writer, and the second sees the rows of the
//! first.

use millstream_model::id::{EventId, ExecutionKey, Name, TenantId};
use millstream_model::time::Timestamp;
use millstream_store::event_log::{EventSubmission, SignalSubmission};
use millstream_store::relations::SignalView;
use millstream_workflow::log::EventOrigin;
use rusqlite::Connection;

use crate::accept::EventAcceptance;
use crate::decode::SqliteFields;
use crate::errors::SqliteResult;
use crate::param::{FreeText, free_text};

/// An execution with a new correlation.
pub(crate) struct SignalReceiver<'a> {
    pub(crate) execution: &'a ExecutionKey,
    pub(crate) definition: &'a Name,
    pub(crate) correlation: &'a str,
}

/// Signals buffered for it become its events, in the order of acceptance. An undecodable row could never
/// become one: it is removed and logged, and the others are delivered.
pub(crate) fn deliver_signals(
    connection: &Connection,
    acceptance: &mut EventAcceptance<'_>,
    receiver: &SignalReceiver<'_>,
    now: Timestamp,
) -> SqliteResult<()> {
    const READ_SIGNALS: &str = "
        SELECT id, event_id, name, payload, actor, traceparent FROM signals
        WHERE tenant = ?1 AND correlation = ?2 AND expires_at > ?4
          AND (definition IS NULL OR definition = ?3)
        ORDER BY id";
    const DELETE_SIGNAL: &str = "DELETE FROM signals WHERE id = ?1";
    let (mut places, mut events) = (Vec::new(), Vec::new());
    let mut read = connection.prepare_cached(READ_SIGNALS)?;
    let mut rows = read.query((
        receiver.execution.tenant.as_str(),
        FreeText(receiver.correlation),
        receiver.definition.as_str(),
        now.as_millis(),
    ))?;
    while let Some(row) = rows.next()? {
        places.push(SqliteFields(row).int(0)?);
        match decode_delivered(SqliteFields(row), receiver.execution) {
            Ok(event) => events.push(event),
            Err(error) => tracing::error!(%error, "a buffered signal cannot be decoded"),
        }
    }
    for place in places {
        connection.prepare_cached(DELETE_SIGNAL)?.execute([place])?;
    }
    for event in events {
        // If an event has taken its id meanwhile, the signal was delivered already.
        acceptance.accept_waiting(&event, now)?;
    }
    Ok(())
}

fn decode_delivered(row: SqliteFields<'_>, execution: &ExecutionKey) -> SqliteResult<EventSubmission> {
    Ok(EventSubmission {
        event_id: row.event_id("event_id")?,
        execution: execution.clone(),
        name: row.id("name")?,
        payload: row.raw("payload")?,
        origin: EventOrigin::Posted,
        idempotency: None,
        actor: row.opt_text("actor")?,
        traceparent: row.opt_text("traceparent")?,
    })
}

pub(crate) fn insert_signal(
    connection: &Connection,
    signal: &SignalSubmission,
    now: Timestamp,
) -> SqliteResult<()> {
    const INSERT_SIGNAL: &str = "
        INSERT INTO signals (tenant, event_id, correlation, definition, name, payload, actor, traceparent,
                             created_at, expires_at)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
    connection.prepare_cached(INSERT_SIGNAL)?.execute((
        signal.tenant.as_str(),
        signal.event_id.0.as_bytes(),
        FreeText(&signal.correlation),
        signal.definition.as_ref().map(Name::as_str),
        signal.name.as_str(),
        signal.payload.as_str(),
        free_text(signal.actor.as_deref()),
        free_text(signal.traceparent.as_deref()),
        now.as_millis(),
        signal.expires_at.as_millis(),
    ))?;
    Ok(())
}

pub(crate) fn is_buffered(
    connection: &Connection,
    tenant: &TenantId,
    event_id: EventId,
) -> SqliteResult<bool> {
    const IS_BUFFERED: &str = "SELECT EXISTS (SELECT 1 FROM signals WHERE tenant = ?1 AND event_id = ?2)";
    let mut is_buffered = connection.prepare_cached(IS_BUFFERED)?;
    Ok(is_buffered.query_row((tenant.as_str(), event_id.0.as_bytes()), |row| row.get(0))?)
}

pub(crate) fn read_signal(
    connection: &Connection,
    tenant: &TenantId,
    event_id: EventId,
) -> SqliteResult<Option<SignalView>> {
    const READ_SIGNAL: &str = "SELECT * FROM signals WHERE tenant = ?1 AND event_id = ?2";
    let mut read = connection.prepare_cached(READ_SIGNAL)?;
    let mut rows = read.query((tenant.as_str(), event_id.0.as_bytes()))?;
    let view = rows.next()?.map(|row| {
        let row = SqliteFields(row);
        Ok(SignalView {
            event_id,
            correlation: row.text("correlation")?.to_owned(),
            definition: row.opt_id("definition")?,
            name: row.id("name")?,
            payload: row.raw("payload")?,
            actor: row.opt_text("actor")?,
            created_at: row.time("created_at")?,
            expires_at: row.time("expires_at")?,
        })
    });
    view.transpose()
}
