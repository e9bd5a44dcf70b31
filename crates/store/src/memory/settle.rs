//! Recording what came of attempts, in memory: outcomes, then dependents, then the events' status.

use std::collections::{BTreeMap, BTreeSet};

use millstream_core::id::{ExecutionKey, Name, Seq, WorkerId};
use millstream_core::status::{ActionStatus, EventStatus, Phase};
use millstream_core::time::Timestamp;

use super::leasing;
use super::tables::{Action, Execution, Tables};
use crate::action_store::{AfterFailure, SettleVerdict, Settled, Settlement, Settling};
use crate::execution_store::LeaseGrant;

/// What dependents are judged by: the rows as they are, unless a bug is planted.
#[derive(Debug)]
pub(super) enum View {
    Current,
    /// As they were before other settlements came in between.
    Earlier(BTreeMap<(ExecutionKey, (Seq, Name)), ActionStatus>),
}

impl View {
    /// The actions of the executions of a batch as they stand now.
    pub(super) fn before(tables: &Tables, batch: &[Settlement]) -> Self {
        let touched: BTreeSet<&ExecutionKey> = batch.iter().map(|item| &item.lease.key.execution).collect();
        let mut statuses = BTreeMap::new();
        for (key, row) in touched.into_iter().filter_map(|key| Some((key, tables.executions.get(key)?))) {
            let status =
                |(id, action): (&(Seq, Name), &Action)| ((key.clone(), id.clone()), action.view.status);
            statuses.extend(row.actions.iter().map(status));
        }
        Self::Earlier(statuses)
    }

    /// An action as this settlement sees it: its own outcomes in any case, nothing of other events.
    fn of(
        &self,
        key: &ExecutionKey,
        batch: &[Settlement],
        id: &(Seq, Name),
        now: ActionStatus,
    ) -> ActionStatus {
        let Self::Earlier(statuses) = self else { return now };
        let mut concerned =
            batch.iter().map(|item| &item.lease.key).filter(|action| action.execution == *key);
        if concerned.clone().any(|action| (action.seq, &action.action) == (id.0, &id.1)) {
            now
        } else if concerned.any(|action| action.seq == id.0) {
            statuses.get(&(key.clone(), id.clone())).copied().unwrap_or(now)
        } else {
            ActionStatus::Waiting
        }
    }
}

/// How the status of an action is seen.
type Seen<'a> = dyn Fn(&(Seq, Name), ActionStatus) -> ActionStatus + 'a;

pub(super) fn settle(
    tables: &mut Tables,
    worker: &WorkerId,
    batch: &[Settlement],
    grant: LeaseGrant,
    now: Timestamp,
    view: &View,
) -> Settled {
    let recorded: Vec<bool> = batch.iter().map(|item| record(tables, item, now)).collect();
    let touched: BTreeSet<ExecutionKey> = batch.iter().map(|item| item.lease.key.execution.clone()).collect();
    let mut settled = Settled::default();
    let mut slots = grant.slots;
    for key in touched {
        let Some(row) = tables.executions.get_mut(&key) else { continue };
        let seen = |id: &(Seq, Name), now| view.of(&key, batch, id, now);
        skip_dependents(row, &seen, now);
        for action in free_dependents(row, &seen, now) {
            if slots == 0 {
                settled.unleased += 1;
                continue;
            }
            slots -= 1;
            settled.leased.extend(leasing::grant(row, &action, worker, now.plus(grant.ttl)));
        }
        row.complete_settled_events(now);
    }
    settled.verdicts = batch
        .iter()
        .zip(recorded)
        .map(|(item, recorded)| match tables.event(&item.lease.key.execution.tenant, item.event_id) {
            Some(event) if recorded => SettleVerdict::Recorded { event: event.view.status },
            Some(_) | None => SettleVerdict::Stale,
        })
        .collect();
    settled
}

/// Whether the outcome was recorded: not when the lease has passed on.
fn record(tables: &mut Tables, item: &Settlement, now: Timestamp) -> bool {
    let phase = tables.executions.get(&item.lease.key.execution).map(|row| row.phase);
    let Some(action) = tables.held(&item.lease) else { return false };
    match &item.outcome {
        Settling::Succeeded { result, emit } => {
            action.settle(ActionStatus::Succeeded, now);
            action.view.result = Some(result.clone());
            action.view.error = None;
            if let Some(event) = emit {
                tables.insert_event(event, now);
            }
        }
        Settling::Retry { error, at } => {
            match phase {
                Some(Phase::Cancelled) => action.settle(ActionStatus::Cancelled, now),
                Some(Phase::Active | Phase::Completed | Phase::Failed) | None => action.make_ready(*at),
            }
            action.view.error = Some(error.clone());
        }
        Settling::Failed { error, then } => {
            action.settle(ActionStatus::Failed, now);
            action.view.error = Some(error.clone());
            action.handling = then.handling();
            match then {
                AfterFailure::Emit(event) => {
                    tables.insert_event(event, now);
                }
                AfterFailure::Pause { reason } => fail_event(tables, item, reason, now),
            }
        }
    }
    true
}

fn fail_event(tables: &mut Tables, item: &Settlement, reason: &str, now: Timestamp) {
    let Some((row, accept_no)) = tables.event_of(&item.lease.key.execution, item.event_id) else { return };
    if let Some(event) = row.events.get_mut(&accept_no)
        && event.view.status == EventStatus::Processing
    {
        event.view.status = EventStatus::Failed;
        event.view.error = Some(reason.to_owned());
        event.view.completed_at = Some(now);
    }
    if !row.phase.is_ended() {
        row.pause(reason, now);
    }
}

/// Skip what needs something that failed, and what needs that in turn.
fn skip_dependents(row: &mut Execution, seen: &Seen<'_>, now: Timestamp) {
    loop {
        let lost = waiting_where(row, seen, |needs| {
            needs.iter().any(|status| match status {
                ActionStatus::Failed | ActionStatus::Skipped => true,
                ActionStatus::Waiting
                | ActionStatus::Ready
                | ActionStatus::Leased
                | ActionStatus::Succeeded
                | ActionStatus::Cancelled => false,
            })
        });
        if lost.is_empty() {
            return;
        }
        for action in lost {
            if let Some(action) = row.actions.get_mut(&action) {
                action.settle(ActionStatus::Skipped, now);
            }
        }
    }
}

/// Make ready what waited for successes that are all there. Returns them by seq and ordinal.
fn free_dependents(row: &mut Execution, seen: &Seen<'_>, now: Timestamp) -> Vec<(Seq, Name)> {
    let mut freed =
        waiting_where(row, seen, |needs| needs.iter().all(|need| *need == ActionStatus::Succeeded));
    freed.sort_by_key(|id| (id.0, row.actions.get(id).map(|action| action.view.ordinal)));
    for action in &freed {
        if let Some(action) = row.actions.get_mut(action) {
            action.make_ready(now);
        }
    }
    freed
}

fn waiting_where(
    row: &Execution,
    seen: &Seen<'_>,
    holds: impl Fn(&[ActionStatus]) -> bool,
) -> Vec<(Seq, Name)> {
    row.actions
        .iter()
        .filter(|(_, action)| action.view.status == ActionStatus::Waiting)
        .filter(|((seq, _), action)| {
            let need = |need: &Name| {
                let id = (*seq, need.clone());
                Some(seen(&id, row.actions.get(&id)?.view.status))
            };
            holds(&action.view.needs.iter().filter_map(need).collect::<Vec<_>>())
        })
        .map(|(id, _)| id.clone())
        .collect()
}
