//! New events: their numbers and their rows. Used by everything that accepts one: the door, commits
//! and settlements with outcome events, due timers.

use millstream_core::id::{AcceptNo, EventId, Seq};
use millstream_core::log::Origin;
use millstream_core::status::EventStatus;
use millstream_core::time::Timestamp;
use millstream_store::Result;
use millstream_store::event_log::{NewEvent, NewExecution};
use serde::Serialize;
use sqlx::{Row, SqliteConnection};

use crate::errors::store_error;
use crate::param;

/// A row of `events` to be written.
#[derive(Serialize)]
pub(crate) struct EventRow<'a> {
    tenant: &'a str,
    event: EventId,
    execution: &'a str,
    accept_no: AcceptNo,
    name: &'a str,
    payload: &'a str,
    timer_seq: Option<Seq>,
    actor: Option<&'a str>,
    traceparent: Option<&'a str>,
    status: EventStatus,
    to_state: Option<&'a str>,
    seq: Option<Seq>,
    created_at: i64,
    /// Of an event that is decided from the beginning.
    decided_at: Option<i64>,
}

impl<'a> EventRow<'a> {
    /// An event whose turn comes later.
    pub(crate) fn pending(event: &'a NewEvent, accept_no: AcceptNo, now: Timestamp) -> Self {
        Self {
            tenant: event.execution.tenant.as_str(),
            event: event.event_id,
            execution: event.execution.execution.as_str(),
            accept_no,
            name: event.name.as_str(),
            payload: event.payload.as_str(),
            timer_seq: match event.origin {
                Origin::Posted => None,
                Origin::Timer { armed_seq } => Some(armed_seq),
            },
            actor: event.actor.as_deref(),
            traceparent: event.traceparent.as_deref(),
            status: EventStatus::Pending,
            to_state: None,
            seq: None,
            created_at: now.as_millis(),
            decided_at: None,
        }
    }

    /// A start event: its transition is part of the same write.
    pub(crate) fn started(execution: &'a NewExecution, accept_no: AcceptNo) -> Self {
        let at = execution.state.at;
        Self {
            status: EventStatus::Completed,
            to_state: Some(execution.applied.transition.decision.to.as_str()),
            seq: Some(execution.applied.transition.seq),
            decided_at: Some(at.as_millis()),
            ..Self::pending(&execution.start, accept_no, at)
        }
    }
}

/// Accept events that are undecided, in order.
pub(crate) async fn accept_pending(
    connection: &mut SqliteConnection,
    events: &[&NewEvent],
    now: Timestamp,
) -> Result<Vec<AcceptNo>> {
    if events.is_empty() {
        return Ok(Vec::new());
    }
    let numbers = take_numbers(connection, events.len()).await?;
    let rows: Vec<_> = events
        .iter()
        .zip(&numbers)
        .map(|(event, accept_no)| EventRow::pending(event, *accept_no, now))
        .collect();
    insert_events(connection, &rows).await?;
    Ok(numbers)
}

/// The next numbers of the sequence. They are gone for good only with the commit around it.
pub(crate) async fn take_numbers(connection: &mut SqliteConnection, count: usize) -> Result<Vec<AcceptNo>> {
    const TAKE_NUMBERS: &str = "UPDATE accept_no SET last = last + ?1 WHERE only = 1 RETURNING last";
    let count = param::limit(count);
    let row = sqlx::query(TAKE_NUMBERS).bind(count).fetch_one(connection).await.map_err(store_error)?;
    let last: i64 = row.try_get(0).map_err(store_error)?;
    Ok((last - count + 1..=last).map(AcceptNo).collect())
}

pub(crate) async fn insert_events(connection: &mut SqliteConnection, rows: &[EventRow<'_>]) -> Result<()> {
    const INSERT_EVENTS: &str = "
        INSERT INTO events (tenant, event_id, execution_id, accept_no, name, payload, timer_seq, actor,
                            traceparent, status, to_state, seq, created_at, started_at, completed_at)
        SELECT value ->> 'tenant', value ->> 'event', value ->> 'execution', value ->> 'accept_no',
               value ->> 'name', value ->> 'payload', value ->> 'timer_seq', value ->> 'actor',
               value ->> 'traceparent', value ->> 'status', value ->> 'to_state', value ->> 'seq',
               value ->> 'created_at', value ->> 'decided_at', value ->> 'decided_at'
        FROM json_each(?1)";
    sqlx::query(INSERT_EVENTS).bind(param::rows(rows)?).execute(connection).await.map_err(store_error)?;
    Ok(())
}
