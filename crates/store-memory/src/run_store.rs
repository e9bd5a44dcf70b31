//! Runs, in memory.

use std::collections::{BTreeMap, BTreeSet};

use millstream_devices::claim::{self, RunRecord, SeatStatus};
use millstream_model::id::{RunKey, WorkerId};
use millstream_model::raw::RawJson;
use millstream_model::status::PauseState;
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::action_store::Settlement;
use millstream_store::execution_store::LeaseGrant;
use millstream_store::notices::of_runs;
use millstream_store::run_commit::{self, PresentRun, RunCommitPlan};
use millstream_store::run_seats::StoredHeartbeat;
use millstream_store::run_store::{
    CommittedRuns, RunEntry, RunStore, RunUnit, SeatHeartbeat, SeatPulse, StoredRun,
};

use crate::MemoryStore;
use crate::notices;
use crate::settle::{MemorySettleView, settle_within};
use crate::tables::MemoryTables;

#[async_trait::async_trait]
impl RunStore for MemoryStore {
    async fn load_runs(&self, keys: &[RunKey]) -> StoreResult<Vec<Option<StoredRun>>> {
        let tables = self.lock_tables();
        Ok(keys.iter().map(|key| tables.runs.get(key).cloned()).collect())
    }

    async fn commit_runs(&self, units: &[RunUnit], now: Timestamp) -> StoreResult<CommittedRuns> {
        let mut tables = self.lock_tables();
        let there = |key: &&RunKey| {
            let row = tables.runs.get(*key)?;
            Some(((*key).clone(), PresentRun { version: row.version, heard: stored_heartbeats(&row.run) }))
        };
        let present: BTreeMap<RunKey, PresentRun> =
            run_commit::run_keys(units).iter().filter_map(there).collect();
        let plan = run_commit::plan_units(units, &present)?;
        let settlements: Vec<Settlement> =
            plan.writes.iter().filter_map(|write| write.settlement.clone()).collect();
        write_plan(&mut tables, &plan, now);
        notices::write(&mut tables, of_runs(plan.writes.iter().copied()));
        let (worker, grant) = (WorkerId::no_worker(), LeaseGrant::without_slots());
        let settled =
            settle_within(&mut tables, &worker, &settlements, &grant, now, &MemorySettleView::Current);
        let verdicts = run_commit::unit_verdicts(units, &plan.refused, settled.verdicts, |key| {
            tables.runs.get(key).cloned()
        });
        Ok(CommittedRuns { verdicts, unleased: settled.unleased })
    }

    async fn record_seat_heartbeats(
        &self,
        beats: &[SeatHeartbeat],
        now: Timestamp,
    ) -> StoreResult<Vec<SeatPulse>> {
        let mut tables = self.lock_tables();
        Ok(beats.iter().map(|beat| record_seat_heartbeat(&mut tables, beat, now)).collect())
    }

    async fn due_runs(&self, now: Timestamp, limit: usize) -> StoreResult<Vec<RunKey>> {
        let tables = self.lock_tables();
        let next =
            |run: &RunRecord| run.numbered_seats().filter_map(|(seat, _)| claim::next_due(run, seat)).min();
        let due: BTreeSet<(Timestamp, &RunKey)> = tables
            .runs
            .iter()
            .filter_map(|(key, row)| next(&row.run).map(|(at, _)| (at, key)))
            .filter(|(at, _)| *at <= now)
            .collect();
        Ok(due.into_iter().map(|(_, key)| key.clone()).take(limit).collect())
    }
}

fn stored_heartbeats(run: &RunRecord) -> Vec<StoredHeartbeat> {
    let seats = run.numbered_seats().filter_map(|(number, seat)| {
        let progress = seat.progress.as_ref().map(RawJson::from_value);
        Some(StoredHeartbeat {
            seat: number,
            token: seat.current_holding()?.token,
            at: seat.heard_at()?,
            progress,
        })
    });
    seats.collect()
}

fn write_plan(tables: &mut MemoryTables, plan: &RunCommitPlan<'_>, now: Timestamp) {
    for (key, left) in &plan.runs {
        let position = match tables.runs.get(*key) {
            Some(row) => row.position,
            None => {
                tables.last_run += 1;
                tables.last_run
            }
        };
        let row = StoredRun {
            key: (*key).clone(),
            version: left.version,
            position,
            updated_at: now,
            run: left.run.clone(),
        };
        tables.runs.insert((*key).clone(), row);
    }
    for write in &plan.writes {
        for entry in &write.log {
            let position = tables.run_log.last().map_or(0, |(_, last)| last.position) + 1;
            tables.run_log.push((write.key.clone(), RunEntry { position, entry: entry.clone() }));
        }
    }
}

fn record_seat_heartbeat(tables: &mut MemoryTables, beat: &SeatHeartbeat, now: Timestamp) -> SeatPulse {
    let Some(row) = tables.runs.get_mut(&beat.run) else { return SeatPulse::Lost };
    let run = &mut row.run;
    let pause = if run.is_paused() { PauseState::Paused } else { PauseState::Running };
    let Some(seat) = run.seats.get_mut(usize::from(beat.seat)) else { return SeatPulse::Lost };
    let is_theirs =
        seat.current_holding().is_some_and(|held| (&held.device, held.token) == (&beat.device, beat.token));
    let may_tell = match seat.status() {
        SeatStatus::Claimed => beat.progress.is_none(),
        SeatStatus::Processing => true,
        SeatStatus::Created
        | SeatStatus::AssigningToSelf
        | SeatStatus::AssigningToOther
        | SeatStatus::Assigned
        | SeatStatus::Reassigning
        | SeatStatus::Completed
        | SeatStatus::Failed => false,
    };
    if !is_theirs || !may_tell {
        return SeatPulse::Lost;
    }
    seat.record_heartbeat(now);
    if beat.progress.is_some() {
        seat.progress.clone_from(&beat.progress);
    }
    match claim::next_due(run, beat.seat) {
        Some((until, _)) => SeatPulse::Held { until, pause },
        None => SeatPulse::Lost,
    }
}
