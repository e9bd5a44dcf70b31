//! Due timers become events: one statement removes the timer and inserts the event.

use async_trait::async_trait;
use millstream_model::action_queue::ActionQueue;
use millstream_model::id::{EventId, ExecutionKey};
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::status_text;
use millstream_store::timer_store::TimerStore;
use sqlx::PgPool;
use uuid::Uuid;

use crate::connect::PostgresStore;
use crate::decode;
use crate::errors::PostgresResult;

#[async_trait]
impl TimerStore for PostgresStore {
    async fn fire_due(&self, ids: &[EventId], now: Timestamp) -> StoreResult<Vec<ExecutionKey>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        self.with_retries(|| fire_timers(&self.pool, ids, now)).await
    }

    async fn next_due(&self, queues: &[ActionQueue]) -> StoreResult<Option<Timestamp>> {
        self.without_retries(read_next_due(&self.pool, queues)).await
    }
}

/// Skips timers that a commit is cancelling or another caller is firing; waits for no lock.
async fn fire_timers(pool: &PgPool, ids: &[EventId], now: Timestamp) -> PostgresResult<Vec<ExecutionKey>> {
    const FIRE: &str = "
WITH clock AS MATERIALIZED (
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now
), due AS MATERIALIZED (
    SELECT t.*
    FROM timers t
    WHERE t.fire_at <= (SELECT now FROM clock)
    ORDER BY t.fire_at
    LIMIT cardinality($1::uuid[])
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM timers t USING due d
    WHERE t.tenant = d.tenant AND t.execution_id = d.execution_id AND t.armed_seq = d.armed_seq
      AND t.ordinal = d.ordinal
), placed AS (
    SELECT d.*, row_number() OVER (ORDER BY d.fire_at, d.tenant, d.execution_id, d.armed_seq, d.ordinal) AS place
    FROM due d
), fired AS (
    INSERT INTO events (tenant, event_id, execution_id, accept_no, name, payload, timer_seq, actor, created_at)
    SELECT p.tenant, ($1::uuid[])[p.place], p.execution_id, nextval('accept_no'), p.send, 'null', p.armed_seq,
           'timer', $2
    FROM (SELECT * FROM placed ORDER BY place) p
    RETURNING tenant, execution_id, accept_no, event_id
)
INSERT INTO mailbox (tenant, execution_id, accept_no, event_id, bytes, cancels, created_at)
SELECT f.tenant, f.execution_id, f.accept_no, f.event_id, 4, FALSE, $2 FROM fired f
RETURNING tenant, execution_id, accept_no";
    let uuids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
    let rows = sqlx::query(FIRE).bind(&uuids).bind(now.as_millis()).fetch_all(pool).await?;
    let mut rung = rows
        .iter()
        .map(|row| Ok((decode::accept_no(row)?, decode::execution_key(row)?)))
        .collect::<PostgresResult<Vec<_>>>()?;
    rung.sort_unstable();
    Ok(rung.into_iter().map(|(_, key)| key).collect())
}

/// Actions are ordered by their times within each queue: from queue to queue, and in each to the first ready
/// one.
async fn read_next_due(pool: &PgPool, queues: &[ActionQueue]) -> PostgresResult<Option<Timestamp>> {
    const READ: &str = status_text!(
        "
WITH ready AS (
    SELECT min(a.due_at) AS due_at
    FROM unnest($1::text[]) AS q(queue)
    CROSS JOIN LATERAL (
        SELECT a.due_at
        FROM actions a
        WHERE a.status IN ({OPEN_ACTIONS}) AND a.status = 'ready' AND a.queue = q.queue
        ORDER BY a.due_at LIMIT 1) a
)
SELECT least((SELECT min(fire_at) FROM timers), (SELECT due_at FROM ready))"
    );
    let queues: Vec<&str> = queues.iter().map(ActionQueue::as_str).collect();
    let next: Option<i64> = sqlx::query_scalar(READ).bind(queues).fetch_one(pool).await?;
    Ok(next.map(Timestamp::from_millis))
}
