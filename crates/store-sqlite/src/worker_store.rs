//! Who is up, and whose turn it is to do a duty that needs doing once.

use std::time::Duration;

use millstream_core::id::WorkerId;
use millstream_core::time::Timestamp;
use millstream_store::Result;
use millstream_store::worker_store::{WorkerBeat, WorkerStore, WorkerView};
use sqlx::Row;

use crate::connect::SqliteStore;
use crate::decode::Fields;
use crate::errors::{corrupt, store_error};

#[async_trait::async_trait]
impl WorkerStore for SqliteStore {
    async fn beat(&self, worker: &WorkerBeat, now: Timestamp) -> Result<()> {
        const BEAT: &str = "
            INSERT INTO workers (worker_id, started_at, seen_at, lanes, in_flight, version)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6)
            ON CONFLICT (worker_id) DO UPDATE SET
                started_at = excluded.started_at, seen_at = excluded.seen_at, lanes = excluded.lanes,
                in_flight = excluded.in_flight, version = excluded.version";
        let mut tx = self.write().await?;
        sqlx::query(BEAT)
            .bind(worker.worker.as_str())
            .bind(worker.started_at.as_millis())
            .bind(now.as_millis())
            .bind(serde_json::to_string(&worker.lanes).map_err(corrupt)?)
            .bind(worker.in_flight)
            .bind(&worker.version)
            .execute(&mut *tx)
            .await
            .map_err(store_error)?;
        tx.commit().await.map_err(store_error)
    }

    async fn leave(&self, worker: &WorkerId) -> Result<()> {
        const LEAVE: &str = "DELETE FROM workers WHERE worker_id = ?1";
        let mut tx = self.write().await?;
        sqlx::query(LEAVE).bind(worker.as_str()).execute(&mut *tx).await.map_err(store_error)?;
        tx.commit().await.map_err(store_error)
    }

    async fn workers(&self, since: Timestamp) -> Result<Vec<WorkerView>> {
        const WORKERS: &str = "SELECT * FROM workers WHERE seen_at >= ?1 ORDER BY worker_id";
        let rows = sqlx::query(WORKERS)
            .bind(since.as_millis())
            .fetch_all(&self.readers)
            .await
            .map_err(store_error)?;
        rows.iter()
            .map(Fields)
            .map(|row| {
                let beat = WorkerBeat {
                    worker: row.id("worker_id")?,
                    started_at: row.time("started_at")?,
                    lanes: row.json("lanes")?,
                    in_flight: row.small("in_flight")?,
                    version: row.text("version")?.to_owned(),
                };
                Ok(WorkerView { beat, seen_at: row.time("seen_at")? })
            })
            .collect()
    }

    async fn take_duty(
        &self,
        duty: &str,
        worker: &WorkerId,
        ttl: Duration,
        now: Timestamp,
    ) -> Result<Option<Timestamp>> {
        const TAKE_DUTY: &str = "
            INSERT INTO duties (duty, holder, held_until, done_at) VALUES (?1, ?2, ?3, 0)
            ON CONFLICT (duty) DO UPDATE SET holder = excluded.holder, held_until = excluded.held_until
            WHERE duties.holder IS NULL OR duties.holder = excluded.holder OR duties.held_until <= ?4
            RETURNING done_at";
        let mut tx = self.write().await?;
        let row = sqlx::query(TAKE_DUTY)
            .bind(duty)
            .bind(worker.as_str())
            .bind(now.plus(ttl).as_millis())
            .bind(now.as_millis())
            .fetch_all(&mut *tx)
            .await
            .map_err(store_error)?;
        tx.commit().await.map_err(store_error)?;
        row.first().map(|row| row.try_get(0).map(Timestamp::from_millis).map_err(corrupt)).transpose()
    }

    async fn finish_duty(&self, duty: &str, worker: &WorkerId, done_at: Timestamp) -> Result<()> {
        const FINISH_DUTY: &str = "
            UPDATE duties SET holder = NULL, held_until = 0, done_at = ?3 WHERE duty = ?1 AND holder = ?2";
        let mut tx = self.write().await?;
        sqlx::query(FINISH_DUTY)
            .bind(duty)
            .bind(worker.as_str())
            .bind(done_at.as_millis())
            .execute(&mut *tx)
            .await
            .map_err(store_error)?;
        tx.commit().await.map_err(store_error)
    }
}
