//! Taking leases: one statement finds due actions, locks them and leases them.
//!
//! Leasing skips locked rows and waits for no lock.

use std::collections::BTreeSet;

use millstream_model::action_queue::ActionQueue;
use millstream_model::id::WorkerId;
use millstream_store::action_store::LeasedAction;
use millstream_store::execution_store::LeaseGrant;
use millstream_store::status_text;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{PgPool, Postgres, Row};

use crate::action_rows::{self, lease_length, millis};
use crate::decode;
use crate::errors::PostgresResult;

/// A statement that leases the rows of `due` (`place`, `due_at`), at most `$1` of them, for `$3`: one to each
/// of `$2`, and the rest to the last of them. It counts this many attempts; reporting a failure counts none.
macro_rules! lease {
    ($count:literal, $due:literal) => {
        status_text!(concat!(
            "
WITH clock AS MATERIALIZED (
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now
), ",
            $due,
            ", turns AS MATERIALIZED (
    SELECT d.place, d.due_at, row_number() OVER (ORDER BY d.due_at, d.place) AS turn FROM due d
), taken AS (
    UPDATE actions a
    SET status = 'leased', epoch = a.epoch + 1, attempts = a.attempts + CASE WHEN a.closing THEN 0 ELSE ",
            $count,
            " END,
        worker_id = ($2::text[])[least(d.turn, cardinality($2::text[]))],
        due_at = clock.now + ",
            lease_length!("a", "$3"),
            ",
        attempt_until = clock.now + a.attempt_ms, expires_at = NULL
    FROM turns d, clock
    WHERE a.ctid = d.place
    RETURNING a.*, d.turn
)
SELECT t.*, x.definition, x.version, e.traceparent
FROM taken t
CROSS JOIN LATERAL (
    SELECT x.definition, x.version FROM executions x
    WHERE x.tenant = t.tenant AND x.execution_id = t.execution_id OFFSET 0) x
LEFT JOIN LATERAL (
    SELECT e.traceparent FROM events e WHERE e.tenant = t.tenant AND e.event_id = t.event_id OFFSET 0) e ON TRUE
ORDER BY t.turn"
        ))
    };
}

/// Due actions of the queues that the grant names, the longest due of each first.
pub(crate) async fn lease_due(
    pool: &PgPool,
    takers: &[WorkerId],
    grant: &LeaseGrant,
) -> PostgresResult<Vec<LeasedAction>> {
    // One range of the index, read until the limit.
    const OF_ONE: &str = lease!(
        "1",
        "due AS MATERIALIZED (
    SELECT a.ctid AS place, a.due_at
    FROM actions a
    WHERE a.status IN ({LEASABLE_ACTIONS}) AND a.queue = $4 AND a.due_at <= (SELECT now FROM clock)
    ORDER BY a.due_at
    LIMIT $1
    FOR NO KEY UPDATE SKIP LOCKED
)"
    );
    // Round robin: one range per queue. The first of each come before the second of any, so that a long queue
    // does not block the others; locks on surplus rows end with the statement's transaction.
    const OF_EACH: &str = lease!(
        "1",
        "found AS MATERIALIZED (
    SELECT q.queue, a.place, a.due_at
    FROM unnest($4::text[]) AS q(queue)
    CROSS JOIN LATERAL (
        SELECT a.ctid AS place, a.due_at
        FROM actions a
        WHERE a.status IN ({LEASABLE_ACTIONS}) AND a.queue = q.queue
          AND a.due_at <= (SELECT now FROM clock)
        ORDER BY a.due_at
        LIMIT $1
        FOR NO KEY UPDATE SKIP LOCKED) a
), due AS MATERIALIZED (
    SELECT f.place, f.due_at
    FROM (SELECT *, row_number() OVER (PARTITION BY queue ORDER BY due_at) AS turn FROM found) f
    ORDER BY f.turn, f.due_at
    LIMIT $1
)"
    );
    let queues: BTreeSet<&str> = grant.queues.iter().map(ActionQueue::as_str).collect();
    let queues: Vec<&str> = queues.into_iter().collect();
    match &queues[..] {
        [] => Ok(Vec::new()),
        [queue] => read_leased(pool, bind_grant(OF_ONE, takers, grant).bind(*queue)).await,
        [..] => read_leased(pool, bind_grant(OF_EACH, takers, grant).bind(&queues)).await,
    }
}

/// Actions that missed a deadline of their schedule, in any queue.
pub(crate) async fn lease_overdue(
    pool: &PgPool,
    worker: &WorkerId,
    grant: &LeaseGrant,
) -> PostgresResult<Vec<LeasedAction>> {
    // Two ranges of two small indexes: schedules of unleased actions, and expired leases.
    const OVERDUE: &str = lease!(
        "0",
        "missed AS MATERIALIZED (
    SELECT a.ctid AS place, a.expires_at AS due_at
    FROM actions a
    WHERE a.expires_at <= (SELECT now FROM clock)
    ORDER BY a.expires_at
    LIMIT $1
    FOR NO KEY UPDATE SKIP LOCKED
), lost AS MATERIALIZED (
    SELECT a.ctid AS place, a.due_at
    FROM actions a
    WHERE a.status = 'leased' AND (a.attempt_ms IS NOT NULL OR a.close_ms IS NOT NULL)
      AND a.due_at <= (SELECT now FROM clock)
      AND (a.attempt_ms IS NOT NULL OR a.ready_at + a.close_ms <= (SELECT now FROM clock))
    ORDER BY a.due_at
    LIMIT $1
    FOR NO KEY UPDATE SKIP LOCKED
), due AS MATERIALIZED (
    SELECT u.* FROM (SELECT * FROM missed UNION ALL SELECT * FROM lost) u ORDER BY u.due_at LIMIT $1
)"
    );
    read_leased(pool, bind_grant(OVERDUE, std::slice::from_ref(worker), grant)).await
}

type PostgresLeaseQuery<'q> = Query<'q, Postgres, PgArguments>;

fn bind_grant<'q>(sql: &'static str, takers: &[WorkerId], grant: &LeaseGrant) -> PostgresLeaseQuery<'q> {
    sqlx::query(sql)
        .bind(i64::try_from(grant.slots).unwrap_or(i64::MAX))
        .bind(takers.iter().map(|taker| taker.as_str().to_owned()).collect::<Vec<_>>())
        .bind(millis(grant.ttl))
}

async fn read_leased(pool: &PgPool, lease: PostgresLeaseQuery<'_>) -> PostgresResult<Vec<LeasedAction>> {
    let rows = lease.fetch_all(pool).await?;
    let mut leased = Vec::with_capacity(rows.len());
    for row in &rows {
        let action =
            action_rows::decode_leased(row, decode::definition_ref(row)?, row.try_get("traceparent")?)?;
        leased.push((action, action_rows::decode_needs(row)?));
    }
    action_rows::with_results(pool, leased).await
}
