//! Due timers become events: one transaction removes the timer and inserts the event.

use millstream_model::action_queue::ActionQueue;
use millstream_model::id::{EventId, ExecutionKey};
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::event_log::EventSubmission;
use millstream_store::timer_store::TimerStore;
use millstream_workflow::log::EventOrigin;
use rusqlite::{Connection, OptionalExtension};

use crate::accept::accept_emitted;
use crate::connect::SqliteStore;
use crate::decode::SqliteFields;
use crate::errors::SqliteResult;
use crate::param;

#[async_trait::async_trait]
impl TimerStore for SqliteStore {
    async fn fire_due(&self, ids: &[EventId], now: Timestamp) -> StoreResult<Vec<ExecutionKey>> {
        // A reader answers the usual "nothing yet" without the writer's queue.
        if ids.is_empty() || !self.read_transaction(move |connection| is_any_due(connection, now)).await? {
            return Ok(Vec::new());
        }
        let ids = ids.to_vec();
        self.write_transaction(move |connection| {
            let due = take_due(connection, &ids, now)?;
            accept_emitted(connection, &due, now)?;
            Ok(due.into_iter().map(|event| event.execution).collect())
        })
        .await
    }

    async fn next_due(&self, queues: &[ActionQueue]) -> StoreResult<Option<Timestamp>> {
        const NEXT_TIMER: &str = "SELECT min(fire_at) FROM timers";
        // Through the index, whose condition is `settled_at IS NULL`. Waiting actions are at the head of a
        // queue, without a time.
        const NEXT_ACTION: &str = "
            SELECT a.due_at FROM actions AS a
            WHERE a.settled_at IS NULL AND a.queue = ?1 AND a.status = 'ready' AND a.due_at >= 0
            ORDER BY a.due_at LIMIT 1";
        let queues = queues.to_vec();
        self.read_transaction(move |connection| {
            let mut next: Option<i64> =
                connection.prepare_cached(NEXT_TIMER)?.query_row((), |row| row.get(0))?;
            for queue in &queues {
                let due: Option<i64> = connection
                    .prepare_cached(NEXT_ACTION)?
                    .query_row([queue.as_str()], |row| row.get(0))
                    .optional()?;
                next = next.into_iter().chain(due).min();
            }
            Ok(next.map(Timestamp::from_millis))
        })
        .await
    }
}

fn is_any_due(connection: &Connection, now: Timestamp) -> SqliteResult<bool> {
    const IS_ANY_DUE: &str = "SELECT EXISTS (SELECT 1 FROM timers WHERE fire_at <= ?1)";
    Ok(connection.prepare_cached(IS_ANY_DUE)?.query_row([now.as_millis()], |row| row.get(0))?)
}

/// Remove due timers, up to the number of ids, and return them as events.
fn take_due(connection: &Connection, ids: &[EventId], now: Timestamp) -> SqliteResult<Vec<EventSubmission>> {
    const READ_DUE: &str = "
        SELECT rowid AS place, tenant, execution_id, armed_seq, send FROM timers
        WHERE fire_at <= ?1
        ORDER BY fire_at, tenant, execution_id, armed_seq, ordinal
        LIMIT ?2";
    const DELETE_TIMER: &str = "DELETE FROM timers WHERE rowid = ?1";
    let (mut places, mut events) = (Vec::new(), Vec::new());
    let mut read = connection.prepare_cached(READ_DUE)?;
    let mut rows = read.query((now.as_millis(), param::limit(ids.len())))?;
    let mut ids = ids.iter();
    while let Some(row) = rows.next()?
        && let Some(id) = ids.next()
    {
        places.push(SqliteFields(row).int("place")?);
        // An undecodable row can never fire: it is removed and logged, and the others fire.
        match decode_fired(SqliteFields(row), *id) {
            Ok(event) => events.push(event),
            Err(error) => tracing::error!(%error, "a due timer cannot be decoded"),
        }
    }
    let mut delete = connection.prepare_cached(DELETE_TIMER)?;
    for place in places {
        delete.execute([place])?;
    }
    Ok(events)
}

fn decode_fired(row: SqliteFields<'_>, event_id: EventId) -> SqliteResult<EventSubmission> {
    Ok(EventSubmission {
        event_id,
        execution: row.execution()?,
        name: row.id("send")?,
        payload: RawJson::null(),
        origin: EventOrigin::Timer { armed_seq: row.seq("armed_seq")? },
        idempotency: None,
        actor: Some("timer".to_owned()),
        traceparent: None,
    })
}
