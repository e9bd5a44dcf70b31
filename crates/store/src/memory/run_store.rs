//! Runs, in memory.

use std::collections::{BTreeMap, BTreeSet};

use millstream_core::claim::{self, Run, Status};
use millstream_core::id::{RunKey, WorkerId};
use millstream_core::raw::RawJson;
use millstream_core::status::PauseState;
use millstream_core::time::Timestamp;

use super::Memory;
use super::notices;
use super::settle::{View, settle};
use super::tables::Tables;
use crate::Result;
use crate::action_store::Settlement;
use crate::execution_store::LeaseGrant;
use crate::notices::of_runs;
use crate::run_commit::{self, Plan, Present};
use crate::run_seats::Heard;
use crate::run_store::{CommittedRuns, RunEntry, RunStore, SeatBeat, SeatPulse, StoredRun, Unit};

#[async_trait::async_trait]
impl RunStore for Memory {
    async fn load_runs(&self, keys: &[RunKey]) -> Result<Vec<Option<StoredRun>>> {
        let tables = self.tables();
        Ok(keys.iter().map(|key| tables.runs.get(key).cloned()).collect())
    }

    async fn commit_runs(&self, units: &[Unit], now: Timestamp) -> Result<CommittedRuns> {
        let mut tables = self.tables();
        let there = |key: &&RunKey| {
            let row = tables.runs.get(*key)?;
            Some(((*key).clone(), Present { version: row.version, heard: heard(&row.run) }))
        };
        let present: BTreeMap<RunKey, Present> = run_commit::keys(units).iter().filter_map(there).collect();
        let plan = run_commit::plan(units, &present)?;
        let settlements: Vec<Settlement> =
            plan.writes.iter().filter_map(|write| write.settlement.clone()).collect();
        write(&mut tables, &plan, now);
        notices::write(&mut tables, of_runs(plan.writes.iter().copied()));
        let (worker, grant) = (WorkerId::nobody(), LeaseGrant::none());
        let settled = settle(&mut tables, &worker, &settlements, &grant, now, &View::Current);
        let verdicts =
            run_commit::verdicts(units, &plan.refused, settled.verdicts, |key| tables.runs.get(key).cloned());
        Ok(CommittedRuns { verdicts, unleased: settled.unleased })
    }

    async fn beat_seats(&self, beats: &[SeatBeat], now: Timestamp) -> Result<Vec<SeatPulse>> {
        let mut tables = self.tables();
        Ok(beats.iter().map(|beat| hear(&mut tables, beat, now)).collect())
    }

    async fn due_runs(&self, now: Timestamp, limit: usize) -> Result<Vec<RunKey>> {
        let tables = self.tables();
        let next = |run: &Run| run.numbered().filter_map(|(seat, _)| claim::due(run, seat)).min();
        let due: BTreeSet<(Timestamp, &RunKey)> = tables
            .runs
            .iter()
            .filter_map(|(key, row)| next(&row.run).map(|(at, _)| (at, key)))
            .filter(|(at, _)| *at <= now)
            .collect();
        Ok(due.into_iter().map(|(_, key)| key.clone()).take(limit).collect())
    }
}

fn heard(run: &Run) -> Vec<Heard> {
    let seats = run.numbered().filter_map(|(number, seat)| {
        let progress = seat.progress.as_ref().map(RawJson::of);
        Some(Heard { seat: number, token: seat.held()?.token, at: seat.heard_at()?, progress })
    });
    seats.collect()
}

fn write(tables: &mut Tables, plan: &Plan<'_>, now: Timestamp) {
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

fn hear(tables: &mut Tables, beat: &SeatBeat, now: Timestamp) -> SeatPulse {
    let Some(row) = tables.runs.get_mut(&beat.run) else { return SeatPulse::Lost };
    let run = &mut row.run;
    let pause = if run.is_paused() { PauseState::Paused } else { PauseState::Running };
    let Some(seat) = run.seats.get_mut(usize::from(beat.seat)) else { return SeatPulse::Lost };
    let is_theirs = seat.held().is_some_and(|held| (&held.device, held.token) == (&beat.device, beat.token));
    let may_tell = match seat.status() {
        Status::Claimed => beat.progress.is_none(),
        Status::Processing => true,
        Status::Created
        | Status::AssigningToSelf
        | Status::AssigningToOther
        | Status::Assigned
        | Status::Reassigning
        | Status::Completed
        | Status::Failed => false,
    };
    if !is_theirs || !may_tell {
        return SeatPulse::Lost;
    }
    seat.hear(now);
    if beat.progress.is_some() {
        seat.progress.clone_from(&beat.progress);
    }
    match claim::due(run, beat.seat) {
        Some((until, _)) => SeatPulse::Held { until, pause },
        None => SeatPulse::Lost,
    }
}
