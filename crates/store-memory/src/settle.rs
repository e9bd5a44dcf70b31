//! Recording outcomes of attempts, in memory: outcomes, then dependents, then the events' status.

use std::collections::{BTreeMap, BTreeSet};

use millstream_model::action_queue::ActionQueue;
use millstream_model::id::{ExecutionKey, Name, Seq, WorkerId};
use millstream_model::status::{ActionStatus, EventStatus};
use millstream_model::time::Timestamp;
use millstream_store::action_store::{
    AfterFailure, LeaseOrigin, SettleOutcome, SettleVerdict, SettledBatch, Settlement,
};
use millstream_store::execution_store::{ActionRelation, LeaseGrant};
use millstream_store::settling::{SettleConsequences, SettledState, TransitionActions, TransitionMember};

use crate::leasing;
use crate::tables::{MemoryAction, MemoryExecution, MemoryTables};

/// The rows that dependents are judged by: the current ones, unless a fault is injected.
#[derive(Debug)]
pub(crate) enum MemorySettleView {
    Current,
    /// As they were before concurrent settlements.
    Earlier(BTreeMap<(ExecutionKey, (Seq, Name)), ActionStatus>),
}

impl MemorySettleView {
    /// The current actions of the executions of a batch.
    pub(crate) fn before_batch(tables: &MemoryTables, batch: &[Settlement]) -> Self {
        let touched: BTreeSet<&ExecutionKey> = batch.iter().map(|item| &item.lease.key.execution).collect();
        let mut statuses = BTreeMap::new();
        for (key, row) in touched.into_iter().filter_map(|key| Some((key, tables.executions.get(key)?))) {
            let status =
                |(id, action): (&(Seq, Name), &MemoryAction)| ((key.clone(), id.clone()), action.view.status);
            statuses.extend(row.actions.iter().map(status));
        }
        Self::Earlier(statuses)
    }

    /// An action as this settlement sees it: its own outcomes always, no outcomes of other events.
    fn status_of(
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
pub(crate) fn settle_within(
    tables: &mut MemoryTables,
    worker: &WorkerId,
    batch: &[Settlement],
    grant: &LeaseGrant,
    now: Timestamp,
    view: &MemorySettleView,
) -> SettledBatch {
    let recorded: Vec<bool> = batch.iter().map(|item| record_outcome(tables, item, now)).collect();
    let executions: BTreeSet<&ExecutionKey> = batch.iter().map(|item| &item.lease.key.execution).collect();
    let touched: BTreeSet<(ExecutionKey, Seq, Option<Name>)> =
        batch.iter().map(|item| touched_scope(tables, item)).collect();
    let mut settled = SettledBatch::default();
    let mut slots = grant.slots;
    for (key, seq, alone) in touched {
        let Some(row) = tables.executions.get_mut(&key) else { continue };
        let mut graph = match &alone {
            Some(action) => single_action(row, seq, action),
            None => transition_actions(row, seq),
        };
        for (name, member) in &mut graph.members {
            member.status = view.status_of(&key, batch, &(seq, name.clone()), member.status);
        }
        for action in write_consequences(row, seq, graph.propagate_outcomes(), now) {
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
        batch.iter().zip(recorded).map(|(item, recorded)| settle_verdict(tables, item, recorded)).collect();
    settled
}

fn settle_verdict(tables: &MemoryTables, item: &Settlement, recorded: bool) -> SettleVerdict {
    let key = &item.lease.key;
    match tables.find_event(&key.execution.tenant, item.event_id) {
        Some(event) if recorded => {
            let open = find_action(tables, item).is_some_and(|action| !action.view.status.is_settled());
            let event = match (relation_of(tables, item), event.view.status) {
                // The others are ignored.
                (ActionRelation::Independent, EventStatus::Processing) if !open => EventStatus::Completed,
                (ActionRelation::Independent | ActionRelation::Together, status) => status,
            };
            SettleVerdict::Recorded { event }
        }
        Some(_) | None => SettleVerdict::Stale,
    }
}

fn find_action<'a>(tables: &'a MemoryTables, item: &Settlement) -> Option<&'a MemoryAction> {
    let key = &item.lease.key;
    tables.executions.get(&key.execution)?.actions.get(&(key.seq, key.action.clone()))
}

/// The transition that an outcome concerns, or only one action of it.
fn touched_scope(tables: &MemoryTables, item: &Settlement) -> (ExecutionKey, Seq, Option<Name>) {
    let key = &item.lease.key;
    let alone = relation_of(tables, item) == ActionRelation::Independent;
    (key.execution.clone(), key.seq, alone.then(|| key.action.clone()))
}

fn relation_of(tables: &MemoryTables, item: &Settlement) -> ActionRelation {
    find_action(tables, item).map_or(ActionRelation::Together, |action| action.company)
}

/// The actions of one transition.
pub(crate) fn transition_actions(row: &MemoryExecution, seq: Seq) -> TransitionActions {
    let of_seq = row.actions.iter().filter(|((of, _), _)| *of == seq);
    TransitionActions {
        members: of_seq.map(|((_, name), row)| (name.clone(), transition_member(row))).collect(),
        wanted: row.outcome_demand(),
    }
}

/// An action without relations to the others.
fn single_action(row: &MemoryExecution, seq: Seq, action: &Name) -> TransitionActions {
    let found = row.actions.get(&(seq, action.clone())).map(|row| (action.clone(), transition_member(row)));
    TransitionActions { members: found.into_iter().collect(), wanted: row.outcome_demand() }
}

fn transition_member(action: &MemoryAction) -> TransitionMember {
    TransitionMember {
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
pub(crate) fn write_consequences(
    row: &mut MemoryExecution,
    seq: Seq,
    followed: SettleConsequences,
    now: Timestamp,
) -> Vec<(Seq, Name)> {
    for (name, needs) in followed.linked {
        if let Some(action) = row.actions.get_mut(&(seq, name)) {
            action.view.status = ActionStatus::Waiting;
            action.view.settled_at = None;
            action.view.needs = needs;
        }
    }
    for name in followed.skipped {
        if let Some(action) = row.actions.get_mut(&(seq, name)) {
            action.settle_as(ActionStatus::Skipped, now);
        }
    }
    for name in &followed.freed {
        if let Some(action) = row.actions.get_mut(&(seq, name.clone())) {
            action.become_ready(now);
        }
    }
    followed.freed.into_iter().map(|name| (seq, name)).collect()
}

/// Whether the outcome was recorded: `false` when the lease is lost.
fn record_outcome(tables: &mut MemoryTables, item: &Settlement, now: Timestamp) -> bool {
    let key = &item.lease.key;
    let company = relation_of(tables, item);
    let Some(row) = tables.executions.get_mut(&key.execution) else { return false };
    let mut graph = match company {
        ActionRelation::Together => transition_actions(row, key.seq),
        ActionRelation::Independent => single_action(row, key.seq, &key.action),
    };
    if !graph.holds_lease(&key.action, item.lease.epoch) {
        return false;
    }
    let becomes = graph.record_outcome(&key.action, &item.outcome, now);
    let Some(action) = row.actions.get_mut(&(key.seq, key.action.clone())) else { return false };
    match becomes {
        SettledState::Succeeded | SettledState::Failed | SettledState::Cancelled | SettledState::Skipped => {
            action.settle_as(becomes.status(), now)
        }
        SettledState::Ready(at) => action.make_ready(at),
        SettledState::Postponed(at) => {
            action.view.attempts -= 1;
            action.make_ready(at);
        }
        SettledState::Awaiting(until) => {
            action.view.status = ActionStatus::Awaiting;
            action.begun = LeaseOrigin::Awaited;
            action.view.lease_until = until;
            action.terms.queue = ActionQueue::engine_of(&action.view.key.execution.tenant);
            action.view.queue = action.terms.queue.clone();
        }
        SettledState::Closing => {
            action.make_ready(now);
            action.view.status = ActionStatus::Waiting;
            action.view.next_attempt_at = None;
            action.closing = true;
            action.terms.queue = ActionQueue::engine_of(&action.view.key.execution.tenant);
            action.view.queue = action.terms.queue.clone();
        }
    }
    match &item.outcome {
        SettleOutcome::Succeeded { result, emit } => {
            action.view.result = Some(result.clone());
            action.view.error = None;
            if let Some(event) = emit {
                tables.insert_event(event, now);
            }
        }
        SettleOutcome::Retry { error, at: _ } => action.view.error = Some(error.clone()),
        SettleOutcome::Postponed { error: Some(error), .. } => action.view.error = Some(error.clone()),
        SettleOutcome::Postponed { error: None, .. } | SettleOutcome::Awaiting { .. } => {}
        SettleOutcome::Failed { error, then } => {
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

fn fail_event(tables: &mut MemoryTables, item: &Settlement, reason: &str, now: Timestamp) {
    let Some((row, accept_no)) = tables.event_of(&item.lease.key.execution, item.event_id) else { return };
    if let Some(event) = row.events.get_mut(&accept_no)
        && event.view.status == EventStatus::Processing
    {
        event.view.status = EventStatus::Failed;
        event.view.error = Some(reason.to_owned());
        event.view.completed_at = Some(now);
    }
    if !row.phase.is_ended() {
        row.pause_with_reason(reason, now);
    }
}
