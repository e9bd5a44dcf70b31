//! Optimistic concurrency for units of runs: which units of a commit are written, and the resulting state of
//! each run. Pure: backends lock and read the rows, ask here, and write.

use std::collections::{BTreeMap, BTreeSet};

use millstream_devices::claim::RunRecord;
use millstream_model::id::RunKey;
use millstream_model::time::Timestamp;

use crate::StoreResult;
use crate::action_store::SettleVerdict;
use crate::run_seats::{StoredHeartbeat, merge_heartbeats};
use crate::run_store::{ExpectedVersion, RunUnit, RunVerdict, RunWrite, StoredRun};

/// The stored state of a run, locked until the commit is written.
#[derive(Debug, Clone, Default)]
pub struct PresentRun {
    pub version: i64,
    pub heard: Vec<StoredHeartbeat>,
}

/// The writes of a commit.
#[derive(Debug)]
pub struct RunCommitPlan<'a> {
    /// By unit: the run that conflicts.
    pub refused: Vec<Option<RunKey>>,
    /// The resulting state of each run, ordered by key.
    pub runs: BTreeMap<&'a RunKey, ResultingRun>,
    /// All accepted writes, in order.
    pub writes: Vec<&'a RunWrite>,
}

#[derive(Debug)]
pub struct ResultingRun {
    pub version: i64,
    pub run: RunRecord,
    /// Whether the run did not exist before.
    pub is_new: bool,
}

/// All runs that a commit names, in order.
pub fn run_keys(units: &[RunUnit]) -> BTreeSet<&RunKey> {
    units.iter().flat_map(|unit| unit.writes.iter().map(|write| &write.key)).collect()
}

/// `present` has every existing run of the commit.
pub fn plan_units<'a>(
    units: &'a [RunUnit],
    present: &BTreeMap<RunKey, PresentRun>,
) -> StoreResult<RunCommitPlan<'a>> {
    let mut plan =
        RunCommitPlan { refused: Vec::with_capacity(units.len()), runs: BTreeMap::new(), writes: Vec::new() };
    // Runs of refused units and the version each would have left. A unit that expects that version depends on
    // a rejected one and is rejected as well, even if a concurrent commit left the same version.
    let mut astray: BTreeMap<&RunKey, i64> = BTreeMap::new();
    for unit in units {
        let rests = |write: &&RunWrite| {
            astray.get(&write.key).is_some_and(|made| next_version(write.expected) > *made)
        };
        let resting = unit.writes.iter().find(rests).map(|write| write.key.clone());
        let refused = resting.or_else(|| in_the_way(unit, &plan, present));
        if refused.is_some() {
            for write in &unit.writes {
                let made = astray.entry(&write.key).or_insert(i64::MAX);
                *made = next_version(write.expected).min(*made);
            }
        } else {
            for write in &unit.writes {
                let mut run = write.run.clone();
                if let Some(there) = present.get(&write.key) {
                    merge_heartbeats(&mut run, &there.heard)?;
                }
                let is_new = !present.contains_key(&write.key);
                plan.runs
                    .insert(&write.key, ResultingRun { version: next_version(write.expected), run, is_new });
                plan.writes.push(write);
            }
        }
        plan.refused.push(refused);
    }
    Ok(plan)
}

const fn next_version(expected: ExpectedVersion) -> i64 {
    match expected {
        ExpectedVersion::Nothing => 1,
        ExpectedVersion::Version(version) => version + 1,
    }
}

fn in_the_way(
    unit: &RunUnit,
    plan: &RunCommitPlan<'_>,
    present: &BTreeMap<RunKey, PresentRun>,
) -> Option<RunKey> {
    let mut seen = BTreeSet::new();
    let stands = |write: &&RunWrite| {
        let there = present.get(&write.key);
        let version = match plan.runs.get(&write.key) {
            Some(left) => Some(left.version),
            None => there.map(|there| there.version),
        };
        let is_expected = match write.expected {
            ExpectedVersion::Nothing => version.is_none(),
            ExpectedVersion::Version(expected) => version == Some(expected),
        };
        let heard = there.map(|there| &there.heard[..]).unwrap_or_default();
        let is_later =
            |(seat, until): &(u16, Timestamp)| heard.iter().any(|one| one.seat == *seat && one.at > *until);
        let was_heard = write.unheard.iter().any(is_later);
        !is_expected || was_heard
    };
    let twice = unit.writes.iter().find(|write| !seen.insert(&write.key));
    twice.or_else(|| unit.writes.iter().find(stands)).map(|write| write.key.clone())
}

/// One verdict per unit. `settled` are those of the settlements, in order; `current` reads the stored run.
pub fn unit_verdicts(
    units: &[RunUnit],
    refused: &[Option<RunKey>],
    settled: Vec<SettleVerdict>,
    current: impl Fn(&RunKey) -> Option<StoredRun>,
) -> Vec<RunVerdict> {
    let mut settled = settled.into_iter();
    let verdict = |(unit, refused): (&RunUnit, &Option<RunKey>)| match refused {
        Some(key) => RunVerdict::Conflict { key: key.clone(), current: current(key).map(Box::new) },
        None => {
            let count = unit.writes.iter().filter(|write| write.settlement.is_some()).count();
            RunVerdict::Done { settled: settled.by_ref().take(count).collect() }
        }
    };
    units.iter().zip(refused).map(verdict).collect()
}

#[cfg(test)]
mod tests {
    use millstream_devices::claim::{RunSpec, create_run};
    use millstream_model::id::{Name, RunId, TenantId};
    use millstream_model::raw::RawJson;

    use super::*;

    fn key(text: &str) -> RunKey {
        RunKey { tenant: TenantId::default_tenant(), run: RunId::parse(text).unwrap() }
    }

    fn write(text: &str, expected: i64) -> RunWrite {
        let spec = RunSpec::with_defaults(Name::parse("film").unwrap(), RawJson::null());
        let change = create_run(spec, None, Timestamp::EPOCH);
        RunWrite {
            key: key(text),
            expected: ExpectedVersion::Version(expected),
            run: change.run,
            log: change.log,
            unheard: Vec::new(),
            settlement: None,
        }
    }

    fn refused(units: &[&[RunWrite]], versions: &[(&str, i64)]) -> Vec<bool> {
        let units: Vec<RunUnit> = units.iter().map(|writes| RunUnit { writes: writes.to_vec() }).collect();
        let present = versions
            .iter()
            .map(|(text, version)| (key(text), PresentRun { version: *version, heard: Vec::new() }));
        let plan = plan_units(&units, &present.collect()).unwrap();
        plan.refused.iter().map(Option::is_some).collect()
    }

    #[test]
    fn units_of_one_run_apply_sequentially() {
        let (first, second) = ([write("r", 5)], [write("r", 6)]);
        assert_eq!(refused(&[&first, &second], &[("r", 5)]), [false, false]);
    }

    #[test]
    fn unit_depending_on_rejected_unit_is_rejected() {
        let (first, second) = ([write("r", 5)], [write("r", 6)]);
        assert_eq!(refused(&[&first, &second], &[("r", 6)]), [true, true]);
    }

    #[test]
    fn independent_unit_survives_rejected_unit() {
        let (torn, whole) = ([write("a", 5), write("b", 5)], [write("b", 5)]);
        assert_eq!(refused(&[&torn, &whole], &[("a", 9), ("b", 5)]), [true, false]);
    }

    #[test]
    fn rejection_spreads_over_all_unit_runs() {
        let (both, second) = ([write("a", 5), write("b", 5)], [write("b", 6)]);
        let other = [write("c", 1)];
        assert_eq!(refused(&[&both, &second, &other], &[("a", 9), ("b", 6), ("c", 1)]), [true, true, false]);
    }
}
