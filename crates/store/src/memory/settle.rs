//! Recording outcomes of attempts, in memory: outcomes, then dependents, then the events' status.

use std::collections::{BTreeMap, BTreeSet};

use millstream_core::id::{ExecutionKey, Name, Seq, WorkerId};
use millstream_core::placement::Queue;
use millstream_core::status::{ActionStatus, EventStatus};
use millstream_core::time::Timestamp;

use super::leasing;
use super::tables::{Action, Execution, Tables};
use crate::action_store::{AfterFailure, Begun, SettleVerdict, Settled, Settlement, Settling};
use crate::execution_store::{Company, LeaseGrant};
use crate::settling::{Becomes, Followed, Graph, Member};

/// The rows that dependents are judged by: the current ones, unless a fault is injected.
#[derive(Debug)]
pub(super) enum View {
    Current,
    /// As they were before concurrent settlements.
    Earlier(BTreeMap<(ExecutionKey, (Seq, Name)), ActionStatus>),
}

impl View {
    /// The current actions of the executions of a batch.
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

    /// An action as this settlement sees it: its own outcomes always, no outcomes of other events.
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

/// Settles within the caller's transaction.
pub(super) fn settle(
    tables: &mut Tables,
    worker: &WorkerId,
    batch: &[Settlement],
    grant: &LeaseGrant,
    now: Timestamp,
    view: &View,
) -> Settled {
    let recorded: Vec<bool> = batch.iter().map(|item| record(tables, item, now)).collect();
    let executions: BTreeSet<&ExecutionKey> = batch.iter().map(|item| &item.lease.key.execution).collect();
    let touched: BTreeSet<(ExecutionKey, Seq, Option<Name>)> =
        batch.iter().map(|item| touched(tables, item)).collect();
    let mut settled = Settled::default();
    let mut slots = grant.slots;
    for (key, seq, alone) in touched {
        let Some(row) = tables.executions.get_mut(&key) else { continue };
        let mut graph = match &alone {
            Some(action) => only(row, seq, action),
            None => graph(row, seq),
        };
        for (name, member) in &mut graph.members {
            member.status = view.of(&key, batch, &(seq, name.clone()), member.status);
        }
        for action in follow(row, seq, graph.follow(), now) {
            let served = row.actions.get(&action).is_some_and(|row| grant.serves(&row.terms.queue));
            if slots == 0 || !served {
                settled.unleased += 1;
                continue;
            }
            slots -= 1;
            settled.leased.extend(leasing::grant(row, &action, worker, grant, now));
        }
    }
    for key in executions {
        if let Some(row) = tables.executions.get_mut(key) {
            row.complete_settled_events(now);
        }
    }
    settled.verdicts =
        batch.iter().zip(recorded).map(|(item, recorded)| verdict(tables, item, recorded)).collect();
    settled
}

fn verdict(tables: &Tables, item: &Settlement, recorded: bool) -> SettleVerdict {
    let key = &item.lease.key;
    match tables.event(&key.execution.tenant, item.event_id) {
        Some(event) if recorded => {
            let open = action(tables, item).is_some_and(|action| !action.view.status.is_settled());
            let event = match (company(tables, item), event.view.status) {
                // The others are ignored.
                (Company::Independent, EventStatus::Processing) if !open => EventStatus::Completed,
                (Company::Independent | Company::Together, status) => status,
            };
            SettleVerdict::Recorded { event }
        }
        Some(_) | None => SettleVerdict::Stale,
    }
}

fn action<'a>(tables: &'a Tables, item: &Settlement) -> Option<&'a Action> {
    let key = &item.lease.key;
    tables.executions.get(&key.execution)?.actions.get(&(key.seq, key.action.clone()))
}

/// The transition that an outcome concerns, or only one action of it.
fn touched(tables: &Tables, item: &Settlement) -> (ExecutionKey, Seq, Option<Name>) {
    let key = &item.lease.key;
    let alone = company(tables, item) == Company::Independent;
    (key.execution.clone(), key.seq, alone.then(|| key.action.clone()))
}

fn company(tables: &Tables, item: &Settlement) -> Company {
    action(tables, item).map_or(Company::Together, |action| action.company)
}

/// The actions of one transition.
pub(super) fn graph(row: &Execution, seq: Seq) -> Graph {
    let of_seq = row.actions.iter().filter(|((of, _), _)| *of == seq);
    Graph {
        members: of_seq.map(|((_, name), row)| (name.clone(), member(row))).collect(),
        wanted: row.wanted(),
    }
}

/// An action without relations to the others.
fn only(row: &Execution, seq: Seq, action: &Name) -> Graph {
    let found = row.actions.get(&(seq, action.clone())).map(|row| (action.clone(), member(row)));
    Graph { members: found.into_iter().collect(), wanted: row.wanted() }
}

fn member(action: &Action) -> Member {
    Member {
        ordinal: action.view.ordinal,
        needs: action.view.needs.clone(),
        status: action.view.status,
        epoch: action.view.epoch,
        settled_at: action.view.settled_at,
        closing: action.closing,
        undoes: action.undoes.clone(),
    }
}

/// Writes the consequences of outcomes; returns the actions that became ready, in order.
pub(super) fn follow(row: &mut Execution, seq: Seq, followed: Followed, now: Timestamp) -> Vec<(Seq, Name)> {
    for (name, needs) in followed.linked {
        if let Some(action) = row.actions.get_mut(&(seq, name)) {
            action.view.status = ActionStatus::Waiting;
            action.view.settled_at = None;
            action.view.needs = needs;
        }
    }
    for name in followed.skipped {
        if let Some(action) = row.actions.get_mut(&(seq, name)) {
            action.settle(ActionStatus::Skipped, now);
        }
    }
    for name in &followed.freed {
        if let Some(action) = row.actions.get_mut(&(seq, name.clone())) {
            action.begin(now);
        }
    }
    followed.freed.into_iter().map(|name| (seq, name)).collect()
}

/// Whether the outcome was recorded: `false` when the lease is lost.
fn record(tables: &mut Tables, item: &Settlement, now: Timestamp) -> bool {
    let key = &item.lease.key;
    let company = company(tables, item);
    let Some(row) = tables.executions.get_mut(&key.execution) else { return false };
    let mut graph = match company {
        Company::Together => graph(row, key.seq),
        Company::Independent => only(row, key.seq, &key.action),
    };
    if !graph.holds(&key.action, item.lease.epoch) {
        return false;
    }
    let becomes = graph.record(&key.action, &item.outcome, now);
    let Some(action) = row.actions.get_mut(&(key.seq, key.action.clone())) else { return false };
    match becomes {
        Becomes::Succeeded => action.settle(ActionStatus::Succeeded, now),
        Becomes::Failed => action.settle(ActionStatus::Failed, now),
        Becomes::Cancelled => action.settle(ActionStatus::Cancelled, now),
        Becomes::Skipped => action.settle(ActionStatus::Skipped, now),
        Becomes::Ready(at) => action.make_ready(at),
        Becomes::Postponed(at) => {
            action.view.attempts -= 1;
            action.make_ready(at);
        }
        Becomes::Awaiting(until) => {
            action.view.status = ActionStatus::Awaiting;
            action.begun = Begun::Awaited;
            action.view.lease_until = until;
            action.terms.queue = Queue::engine_of(&action.view.key.execution.tenant);
            action.view.queue = action.terms.queue.clone();
        }
        Becomes::Closing => {
            action.make_ready(now);
            action.view.status = ActionStatus::Waiting;
            action.view.next_attempt_at = None;
            action.closing = true;
            action.terms.queue = Queue::engine_of(&action.view.key.execution.tenant);
            action.view.queue = action.terms.queue.clone();
        }
    }
    match &item.outcome {
        Settling::Succeeded { result, emit } => {
            action.view.result = Some(result.clone());
            action.view.error = None;
            if let Some(event) = emit {
                tables.insert_event(event, now);
            }
        }
        Settling::Retry { error, at: _ } => action.view.error = Some(error.clone()),
        Settling::Postponed { error: Some(error), .. } => action.view.error = Some(error.clone()),
        Settling::Postponed { error: None, .. } | Settling::Awaiting { .. } => {}
        Settling::Failed { error, then } => {
            action.view.error = Some(error.clone());
            action.handling = then.handling();
            match then {
                AfterFailure::Emit(event) => {
                    tables.insert_event(event, now);
                }
                AfterFailure::Compensate => {}
                AfterFailure::Incident(incident) => {
                    fail_event(tables, item, &incident.reason, now);
                    tables.open_incident(&key.execution, item.event_id, Some(key), incident, now);
                }
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
