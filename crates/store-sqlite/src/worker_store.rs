//! Worker heartbeats, and leases on duties (leader election): one worker at a time performs a duty.

use std::time::Duration;

use millstream_model::id::WorkerId;
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::worker_store::{WorkerHeartbeat, WorkerRecord, WorkerStore};
use rusqlite::OptionalExtension;

use crate::connect::SqliteStore;
use crate::decode::SqliteFields;
use crate::errors::corrupt_row;
use crate::param::FreeText;

#[async_trait::async_trait]
impl WorkerStore for SqliteStore {
    async fn record_worker_heartbeat(&self, worker: &WorkerHeartbeat, now: Timestamp) -> StoreResult<()> {
        const BEAT: &str = "
            INSERT INTO workers (worker_id, started_at, seen_at, lanes, in_flight, version, calls)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
            ON CONFLICT (worker_id) DO UPDATE SET
                started_at = excluded.started_at, seen_at = excluded.seen_at, lanes = excluded.lanes,
                in_flight = excluded.in_flight, version = excluded.version, calls = excluded.calls";
        let worker = worker.clone();
        self.write_transaction(move |connection| {
            connection.prepare_cached(BEAT)?.execute((
                worker.worker.as_str(),
                worker.started_at.as_millis(),
                now.as_millis(),
                serde_json::to_string(&worker.lanes).map_err(corrupt_row)?,
                worker.in_flight,
                FreeText(&worker.version),
                serde_json::to_string(&worker.calls).map_err(corrupt_row)?,
            ))?;
            Ok(())
        })
        .await
    }

    async fn deregister_worker(&self, worker: &WorkerId) -> StoreResult<()> {
        const LEAVE: &str = "DELETE FROM workers WHERE worker_id = ?1";
        let worker = worker.clone();
        self.write_transaction(move |connection| {
            connection.prepare_cached(LEAVE)?.execute([worker.as_str()])?;
            Ok(())
        })
        .await
    }

    async fn list_workers(&self, since: Timestamp) -> StoreResult<Vec<WorkerRecord>> {
        const WORKERS: &str = "SELECT * FROM workers WHERE seen_at >= ?1 ORDER BY worker_id";
        self.read_transaction(move |connection| {
            let mut list = connection.prepare_cached(WORKERS)?;
            let mut rows = list.query([since.as_millis()])?;
            let mut views = Vec::new();
            while let Some(row) = rows.next()? {
                let row = SqliteFields(row);
                let beat = WorkerHeartbeat {
                    worker: row.id("worker_id")?,
                    started_at: row.time("started_at")?,
                    lanes: row.json("lanes")?,
                    in_flight: row.small("in_flight")?,
                    version: row.text("version")?.to_owned(),
                    calls: row.json("calls")?,
                };
                views.push(WorkerRecord { beat, seen_at: row.time("seen_at")? });
            }
            Ok(views)
        })
        .await
    }

    async fn take_duty(
        &self,
        duty: &str,
        worker: &WorkerId,
        ttl: Duration,
        now: Timestamp,
    ) -> StoreResult<Option<Timestamp>> {
        const TAKE_DUTY: &str = "
            INSERT INTO duties (duty, holder, held_until, done_at) VALUES (?1, ?2, ?3, 0)
            ON CONFLICT (duty) DO UPDATE SET holder = excluded.holder, held_until = excluded.held_until
            WHERE duties.holder IS NULL OR duties.holder = excluded.holder OR duties.held_until <= ?4
            RETURNING done_at";
        let (duty, worker) = (duty.to_owned(), worker.clone());
        self.write_transaction(move |connection| {
            let turn = (duty.as_str(), worker.as_str(), now.plus(ttl).as_millis(), now.as_millis());
            let mut take = connection.prepare_cached(TAKE_DUTY)?;
            let done_at = take.query_row(turn, |row| row.get(0)).optional()?;
            Ok(done_at.map(Timestamp::from_millis))
        })
        .await
    }

    async fn finish_duty(&self, duty: &str, worker: &WorkerId, done_at: Timestamp) -> StoreResult<()> {
        const FINISH_DUTY: &str = "
            UPDATE duties SET holder = NULL, held_until = 0, done_at = ?3 WHERE duty = ?1 AND holder = ?2";
        let (duty, worker) = (duty.to_owned(), worker.clone());
        self.write_transaction(move |connection| {
            let done = (duty.as_str(), worker.as_str(), done_at.as_millis());
            connection.prepare_cached(FINISH_DUTY)?.execute(done)?;
            Ok(())
        })
        .await
    }
}
