//! Device runs: load, commit, heartbeats, passed deadlines.
//!
//! A commit locks the runs that it names, then their seats, each in the order of their keys; asks
//! [`run_commit`] which units are written; writes everything in one statement; and settles the waiting
//! actions, whose locks come after these. A commit that only creates runs is that one statement; units whose run
//! exists already are then decided as all others are.

use std::collections::{BTreeMap, HashMap};

use async_trait::async_trait;
use millstream_devices::claim::{SeatProgress, SeatToken};
use millstream_model::id::{DeviceId, RunKey, WorkerId};
use millstream_model::raw::RawJson;
use millstream_model::status::PauseState;
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::action_store::{SettledBatch, Settlement};
use millstream_store::execution_store::LeaseGrant;
use millstream_store::notices::of_runs;
use millstream_store::run_commit;
use millstream_store::run_store::{
    CommittedRuns, RunStore, RunUnit, RunVerdict, SeatHeartbeat, SeatPulse, StoredRun,
};
use sqlx::{PgPool, Row};

use crate::connect::PostgresStore;
use crate::errors::{PostgresFailure, PostgresResult};
use crate::run_rows::{self, RunColumns};
use crate::run_write::{CreatedRuns, FenceVerdict};
use crate::{decode, notices, run_write, settle};

#[async_trait]
impl RunStore for PostgresStore {
    async fn load_runs(&self, keys: &[RunKey]) -> StoreResult<Vec<Option<StoredRun>>> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        self.without_retries(async {
            let found = run_rows::load(&self.warm, keys).await?;
            Ok(keys.iter().map(|key| found.get(key).cloned()).collect())
        })
        .await
    }

    async fn commit_runs(&self, units: &[RunUnit], now: Timestamp) -> StoreResult<CommittedRuns> {
        if units.is_empty() {
            return Ok(CommittedRuns::default());
        }
        let created = if run_write::only_creates(units) {
            self.with_retries(|| self.create_runs_once(units, now)).await?
        } else {
            None
        };
        let created = match created {
            None => return self.commit_units(units, now).await,
            Some(CreatedRuns::All) => {
                let done = |_| RunVerdict::Done { settled: Vec::new() };
                return Ok(CommittedRuns { verdicts: units.iter().map(done).collect(), unleased: 0 });
            }
            Some(CreatedRuns::Only(created)) => created,
        };
        let is_created = |unit: &RunUnit| unit.writes.iter().all(|write| created.contains(&write.key));
        let existing: Vec<RunUnit> = units.iter().filter(|unit| !is_created(unit)).cloned().collect();
        let CommittedRuns { verdicts, unleased } = match self.commit_units(&existing, now).await {
            Ok(committed) => committed,
            Err(error) if created.is_empty() => return Err(error),
            // The others are created, and their callers need to know it.
            Err(error) => {
                tracing::warn!(%error, runs = existing.len(), "runs that exist could not be read");
                CommittedRuns {
                    verdicts: existing.iter().filter_map(undecided_conflict).collect(),
                    unleased: 0,
                }
            }
        };
        let mut verdicts = verdicts.into_iter();
        let verdict = |unit| {
            if is_created(unit) { Some(RunVerdict::Done { settled: Vec::new() }) } else { verdicts.next() }
        };
        Ok(CommittedRuns { verdicts: units.iter().filter_map(verdict).collect(), unleased })
    }

    async fn record_seat_heartbeats(
        &self,
        beats: &[SeatHeartbeat],
        now: Timestamp,
    ) -> StoreResult<Vec<SeatPulse>> {
        if beats.is_empty() {
            return Ok(Vec::new());
        }
        self.with_retries(|| write_heartbeats(&self.leases, beats, now)).await
    }

    async fn due_runs(&self, now: Timestamp, limit: usize) -> StoreResult<Vec<RunKey>> {
        // Several seats of one run may be due: then the page is shorter, and the next page continues.
        const READ: &str = "
SELECT d.tenant, d.run_id, min(d.due_at) AS due_at
FROM (SELECT s.tenant, s.run_id, s.due_at FROM run_seats s WHERE s.due_at <= $1 ORDER BY s.due_at LIMIT $2) d
GROUP BY d.tenant, d.run_id
ORDER BY min(d.due_at), d.tenant, d.run_id";
        self.without_retries(async {
            let rows = sqlx::query(READ)
                .bind(now.as_millis())
                .bind(i64::try_from(limit).unwrap_or(i64::MAX))
                .fetch_all(&self.pool)
                .await?;
            rows.iter().map(decode::run_key).collect()
        })
        .await
    }
}

impl PostgresStore {
    /// The careful path: locks, decides and writes.
    async fn commit_units(&self, units: &[RunUnit], now: Timestamp) -> StoreResult<CommittedRuns> {
        let (refused, settled) = self.with_retries(|| self.commit_runs_once(units, now)).await?;
        let in_the_way: Vec<RunKey> = refused.iter().flatten().cloned().collect();
        let current = self.load_runs(&in_the_way).await?;
        let current: HashMap<RunKey, StoredRun> =
            current.into_iter().flatten().map(|run| (run.key.clone(), run)).collect();
        let verdicts =
            run_commit::unit_verdicts(units, &refused, settled.verdicts, |key| current.get(key).cloned());
        Ok(CommittedRuns { verdicts, unleased: settled.unleased })
    }

    /// Assumes that none of the runs exists, and creates those of which that holds.
    async fn create_runs_once(
        &self,
        units: &[RunUnit],
        now: Timestamp,
    ) -> PostgresResult<Option<CreatedRuns>> {
        let plan = run_commit::plan_units(units, &BTreeMap::new()).map_err(PostgresFailure::from_store)?;
        run_write::create_alone(&self.warm, &plan, now).await
    }

    /// By unit the conflicting run, and the verdicts on settlements of accepted units.
    async fn commit_runs_once(
        &self,
        units: &[RunUnit],
        now: Timestamp,
    ) -> PostgresResult<(Vec<Option<RunKey>>, SettledBatch)> {
        let keys = run_commit::run_keys(units);
        let mut held = self.warm.hold_connection().await?;
        let mut transaction = held.begin().await?;
        let present = run_rows::lock(&mut transaction, &keys).await?;
        let plan = run_commit::plan_units(units, &present).map_err(PostgresFailure::from_store)?;
        if plan.writes.is_empty() {
            transaction.rollback().await?;
            held.return_warm();
            return Ok((plan.refused, SettledBatch::default()));
        }
        if run_write::write(&mut transaction, &plan, now).await? == FenceVerdict::Lost {
            // At once: the retry locks the same rows.
            transaction.rollback().await?;
            held.return_warm();
            return Err(PostgresFailure::Unsettled("a concurrent transaction created one of the runs"));
        }
        notices::write(&mut transaction, &of_runs(plan.writes.iter().copied())).await?;
        let settlements: Vec<Settlement> =
            plan.writes.iter().filter_map(|write| write.settlement.clone()).collect();
        let mut settled = SettledBatch::default();
        if !settlements.is_empty() {
            let (worker, grant) = (WorkerId::no_worker(), LeaseGrant::without_slots());
            settled = settle::settle_within(&mut transaction, &worker, &settlements, &grant, now).await?;
        }
        transaction.commit().await?;
        held.return_warm();
        Ok((plan.refused, settled))
    }
}

/// The conflict of a unit whose run exists, in a state that is not known.
fn undecided_conflict(unit: &RunUnit) -> Option<RunVerdict> {
    let key = unit.writes.first()?.key.clone();
    Some(RunVerdict::Conflict { key, current: None })
}

/// A claim on a seat.
type SeatClaimKey<'a> = (&'a RunKey, u16, &'a DeviceId, SeatToken);

/// Rows are locked in the order of their keys before they are written: two concurrent batches may name the
/// same ones.
async fn write_heartbeats(
    pool: &PgPool,
    beats: &[SeatHeartbeat],
    now: Timestamp,
) -> PostgresResult<Vec<SeatPulse>> {
    const BEAT: &str = "
WITH held AS (
    SELECT s.tenant, s.run_id, s.seat, k.progress, k.place
    FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::bigint[], $6::text[], $7::bigint[])
        AS k(tenant, run_id, seat, device, token, progress, place)
    CROSS JOIN LATERAL (
        SELECT s.tenant, s.run_id, s.seat, s.device, s.token, s.status FROM run_seats s
        WHERE s.tenant = k.tenant AND s.run_id = k.run_id AND s.seat = k.seat
        FOR NO KEY UPDATE) s
    WHERE s.device = k.device AND s.token = k.token
      AND (s.status = 'processing' OR (s.status = 'claimed' AND k.progress IS NULL))
)
UPDATE run_seats s
SET heard_at = greatest(s.heard_at, $8), due_at = least(greatest(s.heard_at, $8) + s.silence_ms, s.begin_by),
    progress = coalesce(h.progress, s.progress)
FROM held h
WHERE s.tenant = h.tenant AND s.run_id = h.run_id AND s.seat = h.seat
RETURNING h.place, s.due_at, s.paused";
    let mut last: BTreeMap<SeatClaimKey<'_>, Option<&SeatProgress>> = BTreeMap::new();
    for beat in beats {
        let told = last.entry(seat_claim_key(beat)).or_default();
        *told = beat.progress.as_ref().or(*told);
    }
    let each = || last.keys();
    let places: Vec<i64> = (0..).take(last.len()).collect();
    let keys: RunColumns<'_> = each().map(|(key, ..)| *key).collect();
    let rows = keys
        .bound(BEAT)
        .bind(each().map(|(_, seat, ..)| i64::from(*seat)).collect::<Vec<_>>())
        .bind(each().map(|(_, _, device, _)| device.as_str()).collect::<Vec<_>>())
        .bind(each().map(|(.., token)| token.0).collect::<Vec<_>>())
        .bind(
            last.values()
                .map(|told| told.map(|told| RawJson::from_value(told).as_str().to_owned()))
                .collect::<Vec<_>>(),
        )
        .bind(&places)
        .bind(now.as_millis())
        .fetch_all(pool)
        .await?;
    let mut pulses: HashMap<i64, SeatPulse> = HashMap::with_capacity(rows.len());
    for row in &rows {
        let pause = if row.try_get("paused")? { PauseState::Paused } else { PauseState::Running };
        let pulse = SeatPulse::Held { until: decode::time(row, "due_at")?, pause };
        pulses.insert(row.try_get("place")?, pulse);
    }
    let by_right: BTreeMap<SeatClaimKey<'_>, i64> = last.into_keys().zip(places).collect();
    let pulse = |beat: &SeatHeartbeat| {
        let place = by_right.get(&seat_claim_key(beat))?;
        pulses.get(place).copied()
    };
    Ok(beats.iter().map(|beat| pulse(beat).unwrap_or(SeatPulse::Lost)).collect())
}

fn seat_claim_key(beat: &SeatHeartbeat) -> SeatClaimKey<'_> {
    (&beat.run, beat.seat, &beat.device, beat.token)
}
