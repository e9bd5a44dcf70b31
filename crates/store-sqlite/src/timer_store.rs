//! Timers that have come due become events: the row goes, the event comes, in one transaction.

use millstream_core::id::{EventId, ExecutionKey};
use millstream_core::log::Origin;
use millstream_core::raw::RawJson;
use millstream_core::time::Timestamp;
use millstream_store::Result;
use millstream_store::event_log::NewEvent;
use millstream_store::timer_store::TimerStore;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use crate::accept::accept_pending;
use crate::connect::SqliteStore;
use crate::decode::Fields;
use crate::errors::store_error;
use crate::param;

#[async_trait::async_trait]
impl TimerStore for SqliteStore {
    async fn fire_due(&self, ids: &[EventId], now: Timestamp) -> Result<Vec<ExecutionKey>> {
        if ids.is_empty() || !self.is_any_timer_due(now).await? {
            return Ok(Vec::new());
        }
        let mut tx = self.write().await?;
        let due = read_due(&mut tx, ids.len(), now).await?;
        let places = due.iter().map(|row| Fields(row).int("place")).collect::<Result<Vec<_>>>()?;
        delete_timers(&mut tx, &places).await?;
        let events: Vec<_> =
            due.iter().map(Fields).zip(ids).filter_map(|(row, id)| fired(row, *id)).collect();
        accept_pending(&mut tx, &events.iter().collect::<Vec<_>>(), now).await?;
        tx.commit().await.map_err(store_error)?;
        Ok(events.into_iter().map(|event| event.execution).collect())
    }

    async fn next_due(&self) -> Result<Option<Timestamp>> {
        const NEXT_DUE: &str = "
            SELECT min(due) FROM (
                SELECT min(fire_at) AS due FROM timers
                UNION ALL
                SELECT * FROM (
                    SELECT due_at FROM actions
                    WHERE status IN ('ready', 'leased') AND status = 'ready' ORDER BY due_at LIMIT 1))";
        let due: Option<i64> =
            sqlx::query_scalar(NEXT_DUE).fetch_one(&self.readers).await.map_err(store_error)?;
        Ok(due.map(Timestamp::from_millis))
    }
}

impl SqliteStore {
    /// A reader answers the usual "nothing yet" without the writer's queue.
    async fn is_any_timer_due(&self, now: Timestamp) -> Result<bool> {
        const IS_ANY_TIMER_DUE: &str = "SELECT EXISTS (SELECT 1 FROM timers WHERE fire_at <= ?1)";
        sqlx::query_scalar(IS_ANY_TIMER_DUE)
            .bind(now.as_millis())
            .fetch_one(&self.readers)
            .await
            .map_err(store_error)
    }
}

async fn read_due(connection: &mut SqliteConnection, limit: usize, now: Timestamp) -> Result<Vec<SqliteRow>> {
    const READ_DUE: &str = "
        SELECT rowid AS place, tenant, execution_id, armed_seq, send FROM timers
        WHERE fire_at <= ?1
        ORDER BY fire_at, tenant, execution_id, armed_seq, ordinal
        LIMIT ?2";
    sqlx::query(READ_DUE)
        .bind(now.as_millis())
        .bind(param::limit(limit))
        .fetch_all(connection)
        .await
        .map_err(store_error)
}

async fn delete_timers(connection: &mut SqliteConnection, places: &[i64]) -> Result<()> {
    const DELETE_TIMERS: &str = "DELETE FROM timers WHERE rowid IN (SELECT value FROM json_each(?1))";
    sqlx::query(DELETE_TIMERS).bind(param::rows(places)?).execute(connection).await.map_err(store_error)?;
    Ok(())
}

/// A row that does not decode can never fire: it goes with a report, and the others fire.
fn fired(row: Fields<'_>, event_id: EventId) -> Option<NewEvent> {
    let decode = || {
        Ok(NewEvent {
            event_id,
            execution: row.execution()?,
            name: row.id("send")?,
            payload: RawJson::null(),
            origin: Origin::Timer { armed_seq: row.seq("armed_seq")? },
            idempotency: None,
            actor: Some("timer".to_owned()),
            traceparent: None,
        })
    };
    let event: Result<NewEvent> = decode();
    event.inspect_err(|error| tracing::error!(%error, "a due timer cannot be decoded")).ok()
}
