//! Device runs: load, commit, heartbeats, passed deadlines.
//!
//! A commit locks the runs that it names, then their seats, each in the order of their keys; asks
//! [`run_commit`] which units are written; writes everything in one statement; and settles the waiting
//! actions, whose locks come after these. A commit that only creates runs is that one statement.

use std::collections::{BTreeMap, HashMap};

use async_trait::async_trait;
use millstream_core::claim::{Progress, Token};
use millstream_core::id::{DeviceId, RunKey, WorkerId};
use millstream_core::raw::RawJson;
use millstream_core::status::PauseState;
use millstream_core::time::Timestamp;
use millstream_store::Result;
use millstream_store::action_store::{Settled, Settlement};
use millstream_store::execution_store::LeaseGrant;
use millstream_store::notices::of_runs;
use millstream_store::run_commit;
use millstream_store::run_store::{
    CommittedRuns, RunStore, RunVerdict, SeatBeat, SeatPulse, StoredRun, Unit,
};
use sqlx::{PgPool, Row};

use crate::connect::PostgresStore;
use crate::errors::{Attempt, Failure};
use crate::run_rows::{self, RunColumns};
use crate::{decode, notices, run_write, settle};

#[async_trait]
impl RunStore for PostgresStore {
    async fn load_runs(&self, keys: &[RunKey]) -> Result<Vec<Option<StoredRun>>> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        self.once(async {
            let found = run_rows::load(&self.warm, keys).await?;
            Ok(keys.iter().map(|key| found.get(key).cloned()).collect())
        })
        .await
    }

    async fn commit_runs(&self, units: &[Unit], now: Timestamp) -> Result<CommittedRuns> {
        if units.is_empty() {
            return Ok(CommittedRuns::default());
        }
        if run_write::only_creates(units) && self.patiently(|| self.create_runs_once(units, now)).await? {
            let done = |_| RunVerdict::Done { settled: Vec::new() };
            return Ok(CommittedRuns { verdicts: units.iter().map(done).collect(), unleased: 0 });
        }
        let (refused, settled) = self.patiently(|| self.commit_runs_once(units, now)).await?;
        let in_the_way: Vec<RunKey> = refused.iter().flatten().cloned().collect();
        let current = self.load_runs(&in_the_way).await?;
        let current: HashMap<RunKey, StoredRun> =
            current.into_iter().flatten().map(|run| (run.key.clone(), run)).collect();
        let verdicts =
            run_commit::verdicts(units, &refused, settled.verdicts, |key| current.get(key).cloned());
        Ok(CommittedRuns { verdicts, unleased: settled.unleased })
    }

    async fn beat_seats(&self, beats: &[SeatBeat], now: Timestamp) -> Result<Vec<SeatPulse>> {
        if beats.is_empty() {
            return Ok(Vec::new());
        }
        self.patiently(|| beat(&self.leases, beats, now)).await
    }

    async fn due_runs(&self, now: Timestamp, limit: usize) -> Result<Vec<RunKey>> {
        // Several seats of one run may be due: then the page is shorter, and the next page continues.
        const READ: &str = "
SELECT d.tenant, d.run_id, min(d.due_at) AS due_at
FROM (SELECT s.tenant, s.run_id, s.due_at FROM run_seats s WHERE s.due_at <= $1 ORDER BY s.due_at LIMIT $2) d
GROUP BY d.tenant, d.run_id
ORDER BY min(d.due_at), d.tenant, d.run_id";
        self.once(async {
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
    /// Assumes that none of the runs exists; returns whether that held.
    async fn create_runs_once(&self, units: &[Unit], now: Timestamp) -> Attempt<bool> {
        let plan = run_commit::plan(units, &BTreeMap::new()).map_err(Failure::from_store)?;
        run_write::create_alone(&self.warm, &plan, now).await
    }

    /// By unit the conflicting run, and the verdicts on settlements of accepted units.
    async fn commit_runs_once(
        &self,
        units: &[Unit],
        now: Timestamp,
    ) -> Attempt<(Vec<Option<RunKey>>, Settled)> {
        let keys = run_commit::keys(units);
        let mut held = self.warm.hold().await?;
        let mut transaction = held.begin().await?;
        let present = run_rows::lock(&mut transaction, &keys).await?;
        let plan = run_commit::plan(units, &present).map_err(Failure::from_store)?;
        if plan.writes.is_empty() {
            transaction.rollback().await?;
            held.keep();
            return Ok((plan.refused, Settled::default()));
        }
        run_write::write(&mut transaction, &plan, now).await?;
        notices::write(&mut transaction, &of_runs(plan.writes.iter().copied())).await?;
        let settlements: Vec<Settlement> =
            plan.writes.iter().filter_map(|write| write.settlement.clone()).collect();
        let mut settled = Settled::default();
        if !settlements.is_empty() {
            let (worker, grant) = (WorkerId::nobody(), LeaseGrant::none());
            settled = settle::settle_within(&mut transaction, &worker, &settlements, &grant, now).await?;
        }
        transaction.commit().await?;
        held.keep();
        Ok((plan.refused, settled))
    }
}

/// A claim on a seat.
type Right<'a> = (&'a RunKey, u16, &'a DeviceId, Token);

/// Rows are locked in the order of their keys before they are written: two concurrent batches may name the
/// same ones.
async fn beat(pool: &PgPool, beats: &[SeatBeat], now: Timestamp) -> Attempt<Vec<SeatPulse>> {
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
    let mut last: BTreeMap<Right<'_>, Option<&Progress>> = BTreeMap::new();
    for beat in beats {
        let told = last.entry(right(beat)).or_default();
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
                .map(|told| told.map(|told| RawJson::of(told).as_str().to_owned()))
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
    let by_right: BTreeMap<Right<'_>, i64> = last.into_keys().zip(places).collect();
    let pulse = |beat: &SeatBeat| {
        let place = by_right.get(&right(beat))?;
        pulses.get(place).copied()
    };
    Ok(beats.iter().map(|beat| pulse(beat).unwrap_or(SeatPulse::Lost)).collect())
}

fn right(beat: &SeatBeat) -> Right<'_> {
    (&beat.run, beat.seat, &beat.device, beat.token)
}
