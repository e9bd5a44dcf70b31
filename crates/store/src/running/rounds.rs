//! The optimistic-concurrency loop: a command that lost against a concurrent commit is retried, a few times.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use millstream_core::claim::{Candidate, Due, overdue};
use millstream_core::id::{DeviceKey, RunKey};
use millstream_core::time::Timestamp;

use super::around::Around;
use super::committing::{Outcome, commit};
use super::order::{Acted, Answer, Ask, Created, Order, Want};
use super::placing::Trust;
use super::planning::{Draft, Page, Plan, Planned, Settle};
use crate::run_store::StoredRun;
use crate::{Result, StoreError};

/// Attempts of a command against concurrent commits.
const TRIES: usize = 8;

/// One answer per command, in order. Each is written by itself, if at all; several on the same run apply one
/// after the other.
pub async fn perform(around: &dyn Around, orders: &[Order]) -> Vec<Result<Answer>> {
    let mut answers: BTreeMap<usize, Result<Answer>> = BTreeMap::new();
    for _ in 0..TRIES {
        let open: Vec<usize> = (0..orders.len()).filter(|at| !answers.contains_key(at)).collect();
        if open.is_empty() {
            break;
        }
        round(around, orders, &open, &mut answers).await;
    }
    let answer =
        |(at, order): (usize, &Order)| answers.remove(&at).unwrap_or_else(|| Err(contended(&order.key)));
    orders.iter().enumerate().map(answer).collect()
}

fn contended(key: &RunKey) -> StoreError {
    StoreError::Contention(format!("run {key} was changed concurrently {TRIES} times in a row"))
}

async fn round(
    around: &dyn Around,
    orders: &[Order],
    open: &[usize],
    answers: &mut BTreeMap<usize, Result<Answer>>,
) {
    let mut open: Vec<(usize, &Order)> = open.iter().filter_map(|at| Some((*at, orders.get(*at)?))).collect();
    let (loaded, unreadable) = load(around, &open).await;
    let takers = match takers(around, &open).await {
        Ok(takers) => takers,
        Err(error) => return fail_all(&open, &error, answers),
    };
    let now = around.now();
    open.sort_by_key(|(_, order)| turn(order, loaded.get(&order.key), now));
    let mut planned;
    let mut trust = Trust::Known;
    let drafts = loop {
        let mut plan = Plan {
            around,
            now,
            pages: loaded.clone(),
            takers: &takers,
            rosters: BTreeMap::new(),
            trust,
            drafts: Vec::new(),
            shifts: BTreeMap::new(),
            unproven: BTreeSet::new(),
        };
        planned = Vec::with_capacity(open.len());
        for (at, order) in &open {
            let outcome = match unreadable.get(&order.key) {
                Some(error) => Err(error.clone()),
                None => plan.order(order).await,
            };
            planned.push((*at, *order, outcome));
        }
        match plan.stands().await {
            Ok(true) => break plan.drafts,
            // A chosen device has gone, or has no capacity left: plan again with rosters from the store.
            Ok(false) => trust = Trust::Read,
            Err(error) => return fail_all(&open, &error, answers),
        }
    };
    let outcomes = commit(around, &drafts, now).await;
    for (at, order, planned) in planned {
        let answer = match planned {
            Err(StoreError::Contention(_)) => None,
            Err(error) => Some(Err(error)),
            Ok(Planned::Said { acted, after }) => {
                let holds = after.is_none_or(|draft| matches!(outcomes.get(draft), Some(Outcome::Done)));
                holds.then_some(Ok(Answer::Acted(acted)))
            }
            Ok(Planned::Draft(draft)) => answer(order, drafts.get(draft), outcomes.get(draft)),
        };
        if let Some(answer) = answer {
            answers.insert(at, answer);
        }
    }
}

/// Order of passed deadlines: first those that free devices, so that waiting runs can use them; then by
/// priority.
fn turn(order: &Order, page: Option<&Page>, now: Timestamp) -> (bool, Reverse<i32>) {
    match (&order.want, page) {
        (Want::Ask(Ask::Due), Some(Page { run, .. })) => {
            let frees = overdue(run, now).iter().any(|(_, what)| match what {
                Due::AssignmentTimeout | Due::ClaimExpiry | Due::HeartbeatTimeout => true,
                Due::Place | Due::BackoffOver => false,
            });
            (!frees, Reverse(run.priority))
        }
        (Want::Ask(_) | Want::Create(_), Some(_) | None) => (false, Reverse(0)),
    }
}

/// `None`: retry.
fn answer(order: &Order, draft: Option<&Draft>, outcome: Option<&Outcome>) -> Option<Result<Answer>> {
    let Draft { writes, settle, .. } = draft?;
    match outcome? {
        Outcome::Done => {
            let change = &writes.first()?.change;
            let run = Box::new(change.run.clone());
            let told = change.told.clone().filter(|_| *settle == Settle::Caller);
            Some(Ok(match &order.want {
                Want::Create(_) => Answer::Created(Created::New(run)),
                Want::Ask(_) => Answer::Acted(Acted::Done { run, told }),
            }))
        }
        Outcome::Faster { key, current } => match (&order.want, current) {
            (Want::Create(_), Some(current)) if *key == order.key => {
                Some(Ok(Answer::Created(Created::Exists(current.clone()))))
            }
            (Want::Create(_) | Want::Ask(_), Some(_) | None) => None,
        },
        Outcome::Again => None,
        Outcome::Failed(error) => Some(Err(error.clone())),
    }
}

fn fail_all(open: &[(usize, &Order)], error: &StoreError, answers: &mut BTreeMap<usize, Result<Answer>>) {
    if !matches!(error, StoreError::Contention(_)) {
        answers.extend(open.iter().map(|(at, _)| (*at, Err(error.clone()))));
    }
}

type Loaded = (BTreeMap<RunKey, Page>, BTreeMap<RunKey, StoreError>);

/// The runs of the commands. A corrupt run does not block the others.
async fn load(around: &dyn Around, open: &[(usize, &Order)]) -> Loaded {
    let asked = open.iter().filter(|(_, order)| matches!(order.want, Want::Ask(_)));
    let keys: BTreeSet<RunKey> = asked.map(|(_, order)| order.key.clone()).collect();
    let keys: Vec<RunKey> = keys.into_iter().collect();
    let (mut pages, mut unreadable) = (BTreeMap::new(), BTreeMap::new());
    let mut keep = |found: Vec<Option<StoredRun>>| {
        pages.extend(found.into_iter().flatten().map(|stored| (stored.key.clone(), Page::from(stored))));
    };
    if keys.is_empty() {
        return (pages, unreadable);
    }
    let runs = &around.stores().runs;
    match runs.load_runs(&keys).await {
        Ok(found) => keep(found),
        Err(StoreError::Corrupt(_)) => {
            for key in keys {
                match runs.load_runs(std::slice::from_ref(&key)).await {
                    Ok(found) => keep(found),
                    Err(error) => drop(unreadable.insert(key, error)),
                }
            }
        }
        Err(error @ (StoreError::Contention(_) | StoreError::Unavailable(_))) => {
            unreadable.extend(keys.into_iter().map(|key| (key, error.clone())));
        }
    }
    (pages, unreadable)
}

/// Devices that take seats by themselves.
async fn takers(around: &dyn Around, open: &[(usize, &Order)]) -> Result<BTreeMap<DeviceKey, Candidate>> {
    let taker = |(_, order): &(usize, &Order)| match &order.want {
        Want::Ask(Ask::Take { device, .. }) => {
            Some(DeviceKey { tenant: order.key.tenant.clone(), device: device.clone() })
        }
        Want::Create(_) | Want::Ask(Ask::Input(_) | Ask::Due | Ask::Adopt(_)) => None,
    };
    let keys: BTreeSet<DeviceKey> = open.iter().filter_map(taker).collect();
    if keys.is_empty() {
        return Ok(BTreeMap::new());
    }
    let keys: Vec<DeviceKey> = keys.into_iter().collect();
    let found = around.stores().devices.devices(&keys).await?;
    Ok(keys.into_iter().zip(found).filter_map(|(key, found)| Some((key, found?))).collect())
}
