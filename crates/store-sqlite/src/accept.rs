//! New events: their numbers and their rows. Used by everything that accepts one: the ingress, commits and
//! settlements with outcome events, due timers.

use millstream_model::id::AcceptNo;
use millstream_model::time::Timestamp;
use millstream_store::event_log::EventSubmission;
use millstream_workflow::log::EventOrigin;
use rusqlite::{CachedStatement, Connection};

use crate::errors::{SqliteResult, corrupt_row};
use crate::param::free_text;

/// Events being accepted in one transaction, in order. Numbers are consumed only with its commit.
pub(crate) struct EventAcceptance<'c> {
    connection: &'c Connection,
    insert_event: CachedStatement<'c>,
    insert_waiting: CachedStatement<'c>,
    /// The last assigned number, and the one in the table.
    last: i64,
    stored: i64,
}

impl<'c> EventAcceptance<'c> {
    pub(crate) fn begin(connection: &'c Connection) -> SqliteResult<Self> {
        const LAST_NUMBER: &str = "SELECT last FROM accept_no WHERE only = 1";
        const INSERT_EVENT: &str = "
            INSERT INTO events (tenant, event_id, execution_id, accept_no, name, payload, timer_seq, actor,
                                traceparent, created_at)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
            ON CONFLICT (tenant, event_id) DO NOTHING";
        const INSERT_WAITING: &str = "
            INSERT INTO mailbox (tenant, execution_id, accept_no, event_id, bytes, cancels, created_at)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        let last = connection.prepare_cached(LAST_NUMBER)?.query_row((), |row| row.get(0))?;
        Ok(Self {
            connection,
            insert_event: connection.prepare_cached(INSERT_EVENT)?,
            insert_waiting: connection.prepare_cached(INSERT_WAITING)?,
            last,
            stored: last,
        })
    }

    /// An undecided event. `None`: its id exists already.
    pub(crate) fn accept_waiting(
        &mut self,
        event: &EventSubmission,
        now: Timestamp,
    ) -> SqliteResult<Option<AcceptNo>> {
        let Some(number) = self.insert_event(event, now)? else { return Ok(None) };
        self.insert_waiting.execute((
            event.execution.tenant.as_str(),
            event.execution.execution.as_str(),
            number.0,
            event.event_id.0.as_bytes(),
            i64::try_from(event.payload.len()).map_err(corrupt_row)?,
            event.name.is_end(),
            now.as_millis(),
        ))?;
        Ok(Some(number))
    }

    /// An event that the engine creates, with an id that no caller can have.
    pub(crate) fn accept_own(&mut self, event: &EventSubmission, now: Timestamp) -> SqliteResult<AcceptNo> {
        self.accept_waiting(event, now)?
            .ok_or_else(|| corrupt_row(format!("event {} already exists", event.event_id)))
    }

    /// An event that is decided from the beginning: its transition is part of the same write.
    pub(crate) fn accept_decided(
        &mut self,
        event: &EventSubmission,
        now: Timestamp,
    ) -> SqliteResult<AcceptNo> {
        self.insert_event(event, now)?
            .ok_or_else(|| corrupt_row(format!("event {} already exists", event.event_id)))
    }

    /// Stores the last assigned number.
    pub(crate) fn store_last_number(self) -> SqliteResult<()> {
        const TAKE_NUMBERS: &str = "UPDATE accept_no SET last = ?1 WHERE only = 1";
        if self.last > self.stored {
            self.connection.prepare_cached(TAKE_NUMBERS)?.execute([self.last])?;
        }
        Ok(())
    }

    fn insert_event(&mut self, event: &EventSubmission, now: Timestamp) -> SqliteResult<Option<AcceptNo>> {
        let number = self.last + 1;
        let timer_seq = match event.origin {
            EventOrigin::Posted => None,
            EventOrigin::Timer { armed_seq } => Some(armed_seq.0),
        };
        let inserted = self.insert_event.execute((
            event.execution.tenant.as_str(),
            event.event_id.0.as_bytes(),
            event.execution.execution.as_str(),
            number,
            event.name.as_str(),
            event.payload.as_str(),
            timer_seq,
            free_text(event.actor.as_deref()),
            free_text(event.traceparent.as_deref()),
            now.as_millis(),
        ))?;
        if inserted == 0 {
            return Ok(None);
        }
        self.last = number;
        Ok(Some(AcceptNo(number)))
    }
}

/// Accept events that the engine creates, in order.
pub(crate) fn accept_emitted<'a>(
    connection: &Connection,
    events: impl IntoIterator<Item = &'a EventSubmission>,
    now: Timestamp,
) -> SqliteResult<Vec<AcceptNo>> {
    let mut acceptance = EventAcceptance::begin(connection)?;
    let numbers = events.into_iter().map(|event| acceptance.accept_own(event, now));
    let numbers = numbers.collect::<SqliteResult<Vec<_>>>()?;
    acceptance.store_last_number()?;
    Ok(numbers)
}
