//! Workers and leases on duties. Heartbeats use the connections of the renewals.

use std::time::Duration;

use async_trait::async_trait;
use millstream_model::id::WorkerId;
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::worker_store::{WorkerHeartbeat, WorkerRecord, WorkerStore};
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::action_rows::millis;
use crate::connect::PostgresStore;
use crate::decode;
use crate::errors::PostgresResult;

#[async_trait]
impl WorkerStore for PostgresStore {
    async fn record_worker_heartbeat(&self, worker: &WorkerHeartbeat, now: Timestamp) -> StoreResult<()> {
        const BEAT: &str = "
INSERT INTO workers (worker_id, started_at, seen_at, lanes, in_flight, version, calls)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (worker_id) DO UPDATE
SET started_at = excluded.started_at, seen_at = excluded.seen_at, lanes = excluded.lanes,
    in_flight = excluded.in_flight, version = excluded.version, calls = excluded.calls";
        self.with_retries(|| async {
            sqlx::query(BEAT)
                .bind(worker.worker.as_str())
                .bind(worker.started_at.as_millis())
                .bind(now.as_millis())
                .bind(RawJson::from_value(&worker.lanes).as_str())
                .bind(worker.in_flight)
                .bind(&worker.version)
                .bind(RawJson::from_value(&worker.calls).as_str())
                .execute(&self.leases)
                .await?;
            Ok(())
        })
        .await
    }

    async fn deregister_worker(&self, worker: &WorkerId) -> StoreResult<()> {
        const LEAVE: &str = "DELETE FROM workers WHERE worker_id = $1";
        self.without_retries(async {
            sqlx::query(LEAVE).bind(worker.as_str()).execute(&self.leases).await?;
            Ok(())
        })
        .await
    }

    async fn list_workers(&self, since: Timestamp) -> StoreResult<Vec<WorkerRecord>> {
        const LIST: &str = "
SELECT worker_id, started_at, seen_at, lanes, in_flight, version, calls
FROM workers WHERE seen_at >= $1 ORDER BY worker_id";
        self.without_retries(async {
            let rows = sqlx::query(LIST).bind(since.as_millis()).fetch_all(&self.pool).await?;
            rows.iter().map(decode_worker).collect()
        })
        .await
    }

    async fn take_duty(
        &self,
        duty: &str,
        worker: &WorkerId,
        ttl: Duration,
        _now: Timestamp,
    ) -> StoreResult<Option<Timestamp>> {
        const TAKE: &str = "
WITH clock AS MATERIALIZED (
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now
)
INSERT INTO duties AS d (duty, holder, held_until, done_at)
SELECT $1, $2, clock.now + $3, 0 FROM clock
ON CONFLICT (duty) DO UPDATE SET holder = excluded.holder, held_until = excluded.held_until
WHERE d.holder IS NULL OR d.holder = excluded.holder OR d.held_until <= excluded.held_until - $3
RETURNING done_at";
        self.with_retries(|| async {
            let done: Option<i64> = sqlx::query_scalar(TAKE)
                .bind(duty)
                .bind(worker.as_str())
                .bind(millis(ttl))
                .fetch_optional(&self.leases)
                .await?;
            Ok(done.map(Timestamp::from_millis))
        })
        .await
    }

    async fn finish_duty(&self, duty: &str, worker: &WorkerId, done_at: Timestamp) -> StoreResult<()> {
        const FINISH: &str = "
UPDATE duties SET holder = NULL, held_until = 0, done_at = $3 WHERE duty = $1 AND holder = $2";
        self.without_retries(async {
            let query = sqlx::query(FINISH).bind(duty).bind(worker.as_str()).bind(done_at.as_millis());
            query.execute(&self.leases).await?;
            Ok(())
        })
        .await
    }
}

fn decode_worker(row: &PgRow) -> PostgresResult<WorkerRecord> {
    Ok(WorkerRecord {
        beat: WorkerHeartbeat {
            worker: decode::parsed(row, "worker_id")?,
            started_at: decode::time(row, "started_at")?,
            lanes: decode::list(row, "lanes")?,
            in_flight: row.try_get("in_flight")?,
            version: row.try_get("version")?,
            calls: decode::list(row, "calls")?,
        },
        seen_at: decode::time(row, "seen_at")?,
    })
}
