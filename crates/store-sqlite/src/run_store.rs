//! Device runs: load, commit, heartbeats, passed deadlines.

use millstream_model::id::{RunKey, WorkerId};
use millstream_model::raw::RawJson;
use millstream_model::status::PauseState;
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::action_store::Settlement;
use millstream_store::execution_store::LeaseGrant;
use millstream_store::notices::of_runs;
use millstream_store::run_commit;
use millstream_store::run_store::{CommittedRuns, RunStore, RunUnit, SeatHeartbeat, SeatPulse, StoredRun};
use rusqlite::Connection;

use crate::connect::SqliteStore;
use crate::decode::SqliteFields;
use crate::errors::SqliteResult;
use crate::run_rows::{append_log, read_present, read_run, write_run};
use crate::settle::settle_batch;
use crate::{notices, param};

#[async_trait::async_trait]
impl RunStore for SqliteStore {
    async fn load_runs(&self, keys: &[RunKey]) -> StoreResult<Vec<Option<StoredRun>>> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let keys = keys.to_vec();
        self.read_transaction(move |connection| keys.iter().map(|key| read_run(connection, key)).collect())
            .await
    }

    async fn commit_runs(&self, units: &[RunUnit], now: Timestamp) -> StoreResult<CommittedRuns> {
        if units.is_empty() {
            return Ok(CommittedRuns::default());
        }
        let units = units.to_vec();
        self.write_transaction(move |connection| commit_batch(connection, &units, now)).await
    }

    async fn record_seat_heartbeats(
        &self,
        beats: &[SeatHeartbeat],
        now: Timestamp,
    ) -> StoreResult<Vec<SeatPulse>> {
        if beats.is_empty() {
            return Ok(Vec::new());
        }
        let beats = beats.to_vec();
        self.write_transaction(move |connection| {
            beats.iter().map(|beat| record_seat_heartbeat(connection, beat, now)).collect()
        })
        .await
    }

    async fn due_runs(&self, now: Timestamp, limit: usize) -> StoreResult<Vec<RunKey>> {
        // Several seats of one run may be due: then the page is shorter, and the next page continues.
        const DUE: &str = "
            SELECT tenant, run_id, min(due_at) AS due_at
            FROM (SELECT tenant, run_id, due_at FROM run_seats WHERE due_at <= ?1 ORDER BY due_at LIMIT ?2)
            GROUP BY tenant, run_id
            ORDER BY min(due_at), tenant, run_id";
        self.read_transaction(move |connection| {
            let mut read = connection.prepare_cached(DUE)?;
            let mut rows = read.query((now.as_millis(), param::limit(limit)))?;
            let mut due = Vec::new();
            while let Some(row) = rows.next()? {
                due.push(SqliteFields(row).run_key()?);
            }
            Ok(due)
        })
        .await
    }
}

fn commit_batch(connection: &Connection, units: &[RunUnit], now: Timestamp) -> SqliteResult<CommittedRuns> {
    let present = read_present(connection, &run_commit::run_keys(units))?;
    let plan = run_commit::plan_units(units, &present)?;
    for (key, left) in &plan.runs {
        write_run(connection, key, left, now)?;
    }
    for write in &plan.writes {
        append_log(connection, &write.key, &write.log)?;
    }
    notices::write(connection, &of_runs(plan.writes.iter().copied()))?;
    let settlements: Vec<Settlement> =
        plan.writes.iter().filter_map(|write| write.settlement.clone()).collect();
    let settled =
        settle_batch(connection, &WorkerId::no_worker(), &settlements, &LeaseGrant::without_slots(), now)?;
    let mut current = std::collections::BTreeMap::new();
    for key in plan.refused.iter().flatten() {
        current.insert(key.clone(), read_run(connection, key)?);
    }
    let verdicts = run_commit::unit_verdicts(units, &plan.refused, settled.verdicts, |key| {
        current.get(key).cloned().flatten()
    });
    Ok(CommittedRuns { verdicts, unleased: settled.unleased })
}

fn record_seat_heartbeat(
    connection: &Connection,
    beat: &SeatHeartbeat,
    now: Timestamp,
) -> SqliteResult<SeatPulse> {
    const HEAR: &str = "
        UPDATE run_seats SET
            heard_at = max(heard_at, ?6),
            due_at = min(max(heard_at, ?6) + silence_ms, coalesce(begin_by, max(heard_at, ?6) + silence_ms)),
            progress = coalesce(?7, progress)
        WHERE tenant = ?1 AND run_id = ?2 AND seat = ?3 AND device = ?4 AND token = ?5
          AND (status = 'processing' OR (status = 'claimed' AND ?7 IS NULL))
        RETURNING due_at, paused";
    let mut update = connection.prepare_cached(HEAR)?;
    let mut rows = update.query((
        beat.run.tenant.as_str(),
        beat.run.run.as_str(),
        beat.seat,
        beat.device.as_str(),
        beat.token.0,
        now.as_millis(),
        beat.progress.as_ref().map(|progress| RawJson::from_value(progress).as_str().to_owned()),
    ))?;
    let Some(row) = rows.next()? else { return Ok(SeatPulse::Lost) };
    let pause = if SqliteFields(row).flag(1)? { PauseState::Paused } else { PauseState::Running };
    Ok(SeatPulse::Held { until: SqliteFields(row).time(0)?, pause })
}
