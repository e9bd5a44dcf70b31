//! Commits the drafts of a round: one transaction, one verdict for each.

use std::collections::BTreeSet;

use millstream_model::id::{DeviceKey, RunKey};
use millstream_model::time::Timestamp;

use super::environment::{RunEnvironment, WrittenRuns};
use super::round_plan::{OutcomeReporter, RunDraft};
use crate::StoreError;
use crate::action_store::Settlement;
use crate::run_store::{CommittedRuns, RunUnit, RunVerdict, RunWrite, StoredRun};

/// The result of a draft.
#[derive(Debug)]
pub(super) enum DraftOutcome {
    Done,
    /// A concurrent commit came first: this run conflicts.
    Faster {
        key: RunKey,
        current: Option<Box<StoredRun>>,
    },
    /// Not tried, or not known to be refused: plan it again.
    Again,
    Failed(StoreError),
}

/// In the order of the drafts.
pub(super) async fn commit_drafts(
    around: &dyn RunEnvironment,
    drafts: &[RunDraft],
    now: Timestamp,
) -> Vec<DraftOutcome> {
    let units = reject_dependents(build_units(around, drafts).await);
    let ready: Vec<RunUnit> = units.iter().filter_map(|unit| unit.as_ref().ok().cloned()).collect();
    let mut verdicts = write_units(around, &ready, now).await.into_iter();
    let mut written = WrittenRuns::default();
    let mut outcomes = Vec::with_capacity(drafts.len());
    for (draft, unit) in drafts.iter().zip(units) {
        outcomes.push(
            match unit.and_then(|unit| Ok((unit, verdicts.next().unwrap_or_else(|| Err(missing_verdict()))?)))
            {
                Ok((unit, (RunVerdict::Done { settled }, unleased))) => {
                    let settlements = unit.writes.into_iter().filter_map(|write| write.settlement);
                    written.settled.extend(settlements.zip(settled));
                    written.unleased = written.unleased.max(unleased);
                    count_draft(draft, &mut written);
                    around.rosters().shift_seats(draft.shifts.iter().map(|(device, seats)| (device, *seats)));
                    DraftOutcome::Done
                }
                Ok((_, (RunVerdict::Conflict { key, current }, _))) => DraftOutcome::Faster { key, current },
                Err(StoreError::Contention(_)) => DraftOutcome::Again,
                Err(error) => DraftOutcome::Failed(error),
            },
        );
    }
    if outcomes.iter().any(|outcome| matches!(outcome, DraftOutcome::Done)) {
        around.publish_changes(written).await;
    }
    outcomes
}

/// A draft that depends on an untried draft is not tried either.
fn reject_dependents(units: Vec<Result<RunUnit, UntriedDraft>>) -> Vec<Result<RunUnit, StoreError>> {
    let mut astray: BTreeSet<RunKey> = BTreeSet::new();
    let tried = |unit| match unit {
        Ok(unit) if names_any(&unit, &astray) => {
            astray.extend(unit.writes.into_iter().map(|write| write.key));
            Err(depends_on_rejected())
        }
        Ok(unit) => Ok(unit),
        Err(UntriedDraft { error, keys }) => {
            astray.extend(keys);
            Err(error)
        }
    };
    units.into_iter().map(tried).collect()
}

fn names_any(unit: &RunUnit, keys: &BTreeSet<RunKey>) -> bool {
    unit.writes.iter().any(|write| keys.contains(&write.key))
}

fn depends_on_rejected() -> StoreError {
    StoreError::Contention("a change that it depends on was not written".to_owned())
}

fn missing_verdict() -> StoreError {
    StoreError::Unavailable("the store gave no verdict".to_owned())
}

/// A draft that cannot be written, and its runs.
struct UntriedDraft {
    error: StoreError,
    keys: BTreeSet<RunKey>,
}

/// The units of the drafts, with settlements of the actions that wait for ending runs.
async fn build_units(around: &dyn RunEnvironment, drafts: &[RunDraft]) -> Vec<Result<RunUnit, UntriedDraft>> {
    let mut ended = Vec::new();
    for draft in drafts {
        for (place, write) in draft.writes.iter().enumerate() {
            let is_here = draft.settle == OutcomeReporter::Here || place > 0;
            if let (Some(waiting), Some(told), true) =
                (&write.change.run.waiting, &write.change.told, is_here)
            {
                ended.push((waiting.clone(), told.clone()));
            }
        }
    }
    let mut settlements =
        if ended.is_empty() { Vec::new() } else { around.build_settlements(ended).await }.into_iter();
    let unit = |draft: &RunDraft| {
        let mut writes = Vec::with_capacity(draft.writes.len());
        let mut failed = None;
        for (place, write) in draft.writes.iter().enumerate() {
            let is_here = draft.settle == OutcomeReporter::Here || place > 0;
            let is_told = write.change.run.waiting.is_some() && write.change.told.is_some() && is_here;
            let settlement: Option<Settlement> = match is_told.then(|| settlements.next()).flatten() {
                Some(Ok(settlement)) => settlement,
                Some(Err(error)) => {
                    failed = Some(error);
                    None
                }
                None => None,
            };
            writes.push(RunWrite {
                key: write.key.clone(),
                expected: write.expected,
                run: write.change.run.clone(),
                log: write.change.log.clone(),
                unheard: write.change.unheard.clone(),
                settlement,
            });
        }
        match failed {
            None => Ok(RunUnit { writes }),
            Some(error) => {
                Err(UntriedDraft { error, keys: writes.into_iter().map(|write| write.key).collect() })
            }
        }
    };
    drafts.iter().map(unit).collect()
}

type UnitVerdict = Result<(RunVerdict, usize), StoreError>;

/// When corrupt data fails the shared write, each unit is written alone.
async fn write_units(around: &dyn RunEnvironment, units: &[RunUnit], now: Timestamp) -> Vec<UnitVerdict> {
    if units.is_empty() {
        return Vec::new();
    }
    let runs = &around.stores().runs;
    let one_by_one = match runs.commit_runs(units, now).await {
        Ok(CommittedRuns { verdicts, unleased }) => {
            return verdicts.into_iter().map(|verdict| Ok((verdict, unleased))).collect();
        }
        Err(StoreError::Corrupt(_)) if units.len() > 1 => units,
        Err(error) => return units.iter().map(|_| Err(error.clone())).collect(),
    };
    let mut all = Vec::with_capacity(one_by_one.len());
    let mut astray: BTreeSet<RunKey> = BTreeSet::new();
    for unit in one_by_one {
        if names_any(unit, &astray) {
            astray.extend(unit.writes.iter().map(|write| write.key.clone()));
            all.push(Err(depends_on_rejected()));
            continue;
        }
        let committed = runs.commit_runs(std::slice::from_ref(unit), now).await;
        let verdict = committed.and_then(|CommittedRuns { verdicts, unleased }| {
            verdicts.into_iter().next().map(|verdict| (verdict, unleased)).ok_or_else(missing_verdict)
        });
        if !matches!(verdict, Ok((RunVerdict::Done { .. }, _))) {
            astray.extend(unit.writes.iter().map(|write| write.key.clone()));
        }
        all.push(verdict);
    }
    all
}

fn count_draft(draft: &RunDraft, written: &mut WrittenRuns) {
    for write in &draft.writes {
        let tenant = &write.key.tenant;
        let key = |device: &millstream_model::id::DeviceId| DeviceKey {
            tenant: tenant.clone(),
            device: device.clone(),
        };
        written.devices.extend(write.change.affected_devices().into_iter().map(key));
        written.tally.count_change(&write.change);
    }
}
