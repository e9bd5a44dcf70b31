//! Which units of a commit count, and what they leave of each run. Pure: backends lock and read what is there, ask
//! here, and write.

use std::collections::{BTreeMap, BTreeSet};

use millstream_core::claim::Run;
use millstream_core::id::RunKey;
use millstream_core::time::Timestamp;

use crate::Result;
use crate::action_store::SettleVerdict;
use crate::run_seats::{Heard, hear};
use crate::run_store::{Expected, RunVerdict, RunWrite, StoredRun, Unit};

/// What is there of a run, and stays so until the commit is written.
#[derive(Debug, Clone, Default)]
pub struct Present {
    pub version: i64,
    pub heard: Vec<Heard>,
}

/// What is to be written.
#[derive(Debug)]
pub struct Plan<'a> {
    /// By unit: what stands in its way.
    pub refused: Vec<Option<RunKey>>,
    /// What is left of each run, in the order of keys.
    pub runs: BTreeMap<&'a RunKey, Left>,
    /// Everything that counts, in order.
    pub writes: Vec<&'a RunWrite>,
}

#[derive(Debug)]
pub struct Left {
    pub version: i64,
    pub run: Run,
    /// Whether there was nothing before.
    pub is_new: bool,
}

/// All runs that a commit names, in order.
pub fn keys(units: &[Unit]) -> BTreeSet<&RunKey> {
    units.iter().flat_map(|unit| unit.writes.iter().map(|write| &write.key)).collect()
}

/// `present` has every run of the commit that exists.
pub fn plan<'a>(units: &'a [Unit], present: &BTreeMap<RunKey, Present>) -> Result<Plan<'a>> {
    let mut plan =
        Plan { refused: Vec::with_capacity(units.len()), runs: BTreeMap::new(), writes: Vec::new() };
    for unit in units {
        let refused = in_the_way(unit, &plan, present);
        if refused.is_none() {
            for write in &unit.writes {
                let mut run = write.run.clone();
                if let Some(there) = present.get(&write.key) {
                    hear(&mut run, &there.heard)?;
                }
                let is_new = !present.contains_key(&write.key);
                plan.runs.insert(&write.key, Left { version: next(write.expected), run, is_new });
                plan.writes.push(write);
            }
        }
        plan.refused.push(refused);
    }
    Ok(plan)
}

const fn next(expected: Expected) -> i64 {
    match expected {
        Expected::Nothing => 1,
        Expected::Version(version) => version + 1,
    }
}

fn in_the_way(unit: &Unit, plan: &Plan<'_>, present: &BTreeMap<RunKey, Present>) -> Option<RunKey> {
    let mut seen = BTreeSet::new();
    let stands = |write: &&RunWrite| {
        let there = present.get(&write.key);
        let version = match plan.runs.get(&write.key) {
            Some(left) => Some(left.version),
            None => there.map(|there| there.version),
        };
        let is_expected = match write.expected {
            Expected::Nothing => version.is_none(),
            Expected::Version(expected) => version == Some(expected),
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

/// One verdict per unit. `settled` are those of the settlements, in order; `current` reads what is there now.
pub fn verdicts(
    units: &[Unit],
    refused: &[Option<RunKey>],
    settled: Vec<SettleVerdict>,
    current: impl Fn(&RunKey) -> Option<StoredRun>,
) -> Vec<RunVerdict> {
    let mut settled = settled.into_iter();
    let verdict = |(unit, refused): (&Unit, &Option<RunKey>)| match refused {
        Some(key) => RunVerdict::Conflict { key: key.clone(), current: current(key).map(Box::new) },
        None => {
            let count = unit.writes.iter().filter(|write| write.settlement.is_some()).count();
            RunVerdict::Done { settled: settled.by_ref().take(count).collect() }
        }
    };
    units.iter().zip(refused).map(verdict).collect()
}
