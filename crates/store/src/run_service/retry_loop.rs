//! The optimistic-concurrency loop: a command that lost against a concurrent commit is retried, a few times.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use millstream_devices::claim::{DeviceCandidate, SeatDue, overdue_seats};
use millstream_model::id::{DeviceKey, RunKey};
use millstream_model::time::Timestamp;

use super::command::{
    CreateRunReply, DeviceRunCommand, DeviceRunCommandKind, RunOperation, RunOperationReply, RunReply,
};
use super::draft_commit::{DraftOutcome, commit_drafts};
use super::environment::RunEnvironment;
use super::placement::RosterSource;
use super::round_plan::{DraftedRun, OutcomeReporter, PlannedCommand, RoundPlan, RunDraft};
use crate::run_store::StoredRun;
use crate::{StoreError, StoreResult};

/// Attempts of a command against concurrent commits.
const TRIES: usize = 8;

/// One answer per command, in order. Each is written by itself, if at all; several on the same run apply one
/// after the other.
pub async fn perform_commands(
    around: &dyn RunEnvironment,
    orders: &[DeviceRunCommand],
) -> Vec<StoreResult<RunReply>> {
    let mut answers: BTreeMap<usize, StoreResult<RunReply>> = BTreeMap::new();
    for _ in 0..TRIES {
        let open: Vec<usize> = (0..orders.len()).filter(|at| !answers.contains_key(at)).collect();
        if open.is_empty() {
            break;
        }
        run_round(around, orders, &open, &mut answers).await;
    }
    let answer = |(at, order): (usize, &DeviceRunCommand)| {
        answers.remove(&at).unwrap_or_else(|| Err(contention_error(&order.key)))
    };
    orders.iter().enumerate().map(answer).collect()
}

fn contention_error(key: &RunKey) -> StoreError {
    StoreError::Contention(format!("run {key} was changed concurrently {TRIES} times in a row"))
}

async fn run_round(
    around: &dyn RunEnvironment,
    orders: &[DeviceRunCommand],
    open: &[usize],
    answers: &mut BTreeMap<usize, StoreResult<RunReply>>,
) {
    let mut open: Vec<(usize, &DeviceRunCommand)> =
        open.iter().filter_map(|at| Some((*at, orders.get(*at)?))).collect();
    let (loaded, unreadable) = load_runs_of(around, &open).await;
    let takers = match load_takers(around, &open).await {
        Ok(takers) => takers,
        Err(error) => return fail_all(&open, &error, answers),
    };
    let now = around.now();
    open.sort_by_key(|(_, order)| command_order(order, loaded.get(&order.key), now));
    let mut planned;
    let mut trust = RosterSource::Known;
    let drafts = loop {
        let mut plan = RoundPlan {
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
                None => plan.plan_command(order).await,
            };
            planned.push((*at, *order, outcome));
        }
        match plan.verify_choices().await {
            Ok(true) => break plan.drafts,
            // A chosen device has gone, or has no capacity left: plan again with rosters from the store.
            Ok(false) => trust = RosterSource::Read,
            Err(error) => return fail_all(&open, &error, answers),
        }
    };
    let outcomes = commit_drafts(around, &drafts, now).await;
    for (at, order, planned) in planned {
        let answer = match planned {
            Err(StoreError::Contention(_)) => None,
            Err(error) => Some(Err(error)),
            Ok(PlannedCommand::Said { acted, after }) => {
                let holds = after.is_none_or(|draft| matches!(outcomes.get(draft), Some(DraftOutcome::Done)));
                holds.then_some(Ok(RunReply::Acted(acted)))
            }
            Ok(PlannedCommand::Draft(draft)) => {
                reply_from_outcome(order, drafts.get(draft), outcomes.get(draft))
            }
        };
        if let Some(answer) = answer {
            answers.insert(at, answer);
        }
    }
}

/// Order of passed deadlines: first those that free devices, so that waiting runs can use them; then by
/// priority.
fn command_order(
    order: &DeviceRunCommand,
    page: Option<&DraftedRun>,
    now: Timestamp,
) -> (bool, Reverse<i32>) {
    match (&order.want, page) {
        (DeviceRunCommandKind::Ask(RunOperation::Due), Some(DraftedRun { run, .. })) => {
            let frees = overdue_seats(run, now).iter().any(|(_, what)| match what {
                SeatDue::AssignmentTimeout | SeatDue::ClaimExpiry | SeatDue::HeartbeatTimeout => true,
                SeatDue::Place | SeatDue::BackoffOver => false,
            });
            (!frees, Reverse(run.priority))
        }
        (DeviceRunCommandKind::Ask(_) | DeviceRunCommandKind::Create(_), Some(_) | None) => {
            (false, Reverse(0))
        }
    }
}

/// `None`: retry.
fn reply_from_outcome(
    order: &DeviceRunCommand,
    draft: Option<&RunDraft>,
    outcome: Option<&DraftOutcome>,
) -> Option<StoreResult<RunReply>> {
    let RunDraft { writes, settle, .. } = draft?;
    match outcome? {
        DraftOutcome::Done => {
            let change = &writes.first()?.change;
            let run = Box::new(change.run.clone());
            let told = change.told.clone().filter(|_| *settle == OutcomeReporter::Caller);
            Some(Ok(match &order.want {
                DeviceRunCommandKind::Create(_) => RunReply::Created(CreateRunReply::New(run)),
                DeviceRunCommandKind::Ask(_) => RunReply::Acted(RunOperationReply::Done { run, told }),
            }))
        }
        DraftOutcome::Faster { key, current } => match (&order.want, current) {
            (DeviceRunCommandKind::Create(_), Some(current)) if *key == order.key => {
                Some(Ok(RunReply::Created(CreateRunReply::Exists(current.clone()))))
            }
            (DeviceRunCommandKind::Create(_) | DeviceRunCommandKind::Ask(_), Some(_) | None) => None,
        },
        DraftOutcome::Again => None,
        DraftOutcome::Failed(error) => Some(Err(error.clone())),
    }
}

fn fail_all(
    open: &[(usize, &DeviceRunCommand)],
    error: &StoreError,
    answers: &mut BTreeMap<usize, StoreResult<RunReply>>,
) {
    if !matches!(error, StoreError::Contention(_)) {
        answers.extend(open.iter().map(|(at, _)| (*at, Err(error.clone()))));
    }
}

type LoadedRuns = (BTreeMap<RunKey, DraftedRun>, BTreeMap<RunKey, StoreError>);

/// The runs of the commands. A corrupt run does not block the others.
async fn load_runs_of(around: &dyn RunEnvironment, open: &[(usize, &DeviceRunCommand)]) -> LoadedRuns {
    let asked = open.iter().filter(|(_, order)| matches!(order.want, DeviceRunCommandKind::Ask(_)));
    let keys: BTreeSet<RunKey> = asked.map(|(_, order)| order.key.clone()).collect();
    let keys: Vec<RunKey> = keys.into_iter().collect();
    let (mut pages, mut unreadable) = (BTreeMap::new(), BTreeMap::new());
    let mut keep = |found: Vec<Option<StoredRun>>| {
        pages
            .extend(found.into_iter().flatten().map(|stored| (stored.key.clone(), DraftedRun::from(stored))));
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
async fn load_takers(
    around: &dyn RunEnvironment,
    open: &[(usize, &DeviceRunCommand)],
) -> StoreResult<BTreeMap<DeviceKey, DeviceCandidate>> {
    let taker = |(_, order): &(usize, &DeviceRunCommand)| match &order.want {
        DeviceRunCommandKind::Ask(RunOperation::Take { device, .. }) => {
            Some(DeviceKey { tenant: order.key.tenant.clone(), device: device.clone() })
        }
        DeviceRunCommandKind::Create(_)
        | DeviceRunCommandKind::Ask(RunOperation::Input(_) | RunOperation::Due | RunOperation::Adopt(_)) => {
            None
        }
    };
    let keys: BTreeSet<DeviceKey> = open.iter().filter_map(taker).collect();
    if keys.is_empty() {
        return Ok(BTreeMap::new());
    }
    let keys: Vec<DeviceKey> = keys.into_iter().collect();
    let found = around.stores().devices.find_devices(&keys).await?;
    Ok(keys.into_iter().zip(found).filter_map(|(key, found)| Some((key, found?))).collect())
}
