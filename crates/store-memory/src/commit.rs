//! Committing a worker's decisions, in memory: the fence first, then every write.

use millstream_model::id::{Epoch, Name, Seq, WorkerId};
use millstream_model::mutation::{self, Mutation};
use millstream_model::status::{ActionStatus, EventStatus};
use millstream_model::time::Timestamp;
use millstream_store::action_store::LeaseOrigin;
use millstream_store::execution_store::{
    CommitVerdict, DecidedEvent, EventVerdict, ExecutionCommit, LeaseGrant, NewAction, OpenActions,
    SnapshotWrite,
};
use millstream_store::graph_store::GraphRows;
use millstream_store::views::ActionRecord;

use crate::leasing;
use crate::tables::{MemoryAction, MemoryExecution, MemoryTables};

pub(crate) fn commit_execution(
    tables: &mut MemoryTables,
    worker: &WorkerId,
    batch: &[ExecutionCommit],
    lease: &LeaseGrant,
    now: Timestamp,
) -> Vec<CommitVerdict> {
    let mut lease = lease.clone();
    batch.iter().map(|item| commit_one(tables, worker, item, &mut lease, now)).collect()
}

fn commit_one(
    tables: &mut MemoryTables,
    worker: &WorkerId,
    item: &ExecutionCommit,
    lease: &mut LeaseGrant,
    now: Timestamp,
) -> CommitVerdict {
    let Some(row) = tables.executions.get_mut(&item.execution) else {
        return CommitVerdict::Missing;
    };
    let ends = item.state.phase.is_ended();
    let holds = row.seq == item.expected && !is_blocked_by_pause(row, item) && all_open(row, &item.decided);
    if !holds && !mutation::is_active(Mutation::NoFence) {
        return CommitVerdict::Conflict;
    }
    // Before anything else: it concerns actions that earlier commits left open.
    match item.open_actions {
        OpenActions::Keep => {}
        OpenActions::Cancel => cancel_open_actions(row, now),
    }
    write_state(row, item);
    for decided in &item.decided {
        decide_event(row, decided, worker, now);
    }
    if ends {
        row.paused = None;
    }
    row.timers.retain(|(armed, _), _| !item.cancelled_timers.contains(armed));
    row.timers.extend(item.timers.iter().map(|timer| ((timer.armed_seq, timer.ordinal), timer.clone())));
    let ready = insert_actions(row, &item.actions, now);
    let (mut leased, mut unleased) = (Vec::new(), 0);
    for action in ready {
        let served = row.actions.get(&action).is_some_and(|row| lease.serves(&row.terms.queue));
        if lease.slots == 0 || !served {
            unleased += 1;
            continue;
        }
        lease.slots -= 1;
        leased.extend(leasing::grant(row, &action, worker, lease, now));
    }
    for action in &item.actions {
        if let Some(incident) = &action.incident {
            tables.open_incident(&item.execution, action.event_id, Some(&action.key), incident, now);
        }
    }
    if ends {
        tables.end_incidents(&item.execution, now);
    }
    if let Some(rows) = &item.graph {
        write_graph(tables, item, rows, now);
    }
    let emitted = item.emitted.iter().map(|event| tables.insert_event(event, now)).collect();
    if item.transitions.iter().any(|transition| transition.decision.correlation.is_some()) {
        tables.deliver_signals(&item.execution, now);
    }
    CommitVerdict::Done { leased, unleased, emitted }
}

/// A pause blocks everything but a cancellation, and nothing once the execution has ended.
fn is_blocked_by_pause(row: &MemoryExecution, item: &ExecutionCommit) -> bool {
    let cancels = match item.open_actions {
        OpenActions::Keep => false,
        OpenActions::Cancel => true,
    };
    row.paused.is_some() && !cancels && !row.phase.is_ended()
}

/// Whether all of these are still undecided.
fn all_open(row: &mut MemoryExecution, decided: &[DecidedEvent]) -> bool {
    decided
        .iter()
        .all(|decided| row.event_by_id(decided.event_id).is_some_and(|event| event.mailbox_state().is_some()))
}

fn write_state(row: &mut MemoryExecution, item: &ExecutionCommit) {
    row.seq = item.state.seq;
    row.phase = item.state.phase;
    row.updated_at = item.state.at;
    row.transitions.extend(item.transitions.iter().cloned());
    match item.snapshot {
        SnapshotWrite::Write => row.snapshot = item.state.clone(),
        SnapshotWrite::Skip => {}
    }
}

fn write_graph(tables: &mut MemoryTables, item: &ExecutionCommit, rows: &GraphRows, now: Timestamp) {
    if let Some(graph) = tables.executions.get_mut(&item.execution).and_then(|row| row.graph.as_mut()) {
        graph.write_rows(rows);
    }
    if let (Some(first), Some(last)) = (item.transitions.first(), item.transitions.last()) {
        tables.feed_transitions(&item.execution, first.seq, last.seq, now);
    }
}

fn decide_event(row: &mut MemoryExecution, decided: &DecidedEvent, worker: &WorkerId, now: Timestamp) {
    let ended = row.phase.is_ended();
    let Some(event) = row.event_by_id(decided.event_id).filter(|event| event.mailbox_state().is_some())
    else {
        return;
    };
    let view = &mut event.view;
    match &decided.verdict {
        EventVerdict::Applied { seq, from, to, status, error } => {
            view.status = *status;
            view.seq = Some(*seq);
            view.from_state.clone_from(from);
            view.to_state = Some(to.clone());
            view.error.clone_from(error);
            view.worker_id = Some(worker.clone());
            view.started_at = Some(now);
            view.completed_at = status.is_final().then_some(now);
            if *status == EventStatus::Failed && !ended {
                row.pause_with_reason(error.as_deref().unwrap_or("an action failed"), now);
            }
        }
        EventVerdict::Rejected { state, reason } => {
            view.status = EventStatus::Rejected;
            view.from_state = Some(state.clone());
            view.error = Some(reason.clone());
            view.worker_id = Some(worker.clone());
            view.completed_at = Some(now);
        }
        EventVerdict::Deferred => view.status = EventStatus::Deferred,
    }
}

fn cancel_open_actions(row: &mut MemoryExecution, now: Timestamp) {
    for action in row.actions.values_mut() {
        match action.view.status {
            ActionStatus::Waiting | ActionStatus::Ready | ActionStatus::Awaiting => {
                action.settle_as(ActionStatus::Cancelled, now);
            }
            ActionStatus::Leased
            | ActionStatus::Standby
            | ActionStatus::Succeeded
            | ActionStatus::Failed
            | ActionStatus::Skipped
            | ActionStatus::Cancelled => {}
        }
    }
    row.complete_settled_events(now);
}

/// Returns those that may be leased, in order.
fn insert_actions(row: &mut MemoryExecution, actions: &[NewAction], now: Timestamp) -> Vec<(Seq, Name)> {
    let mut ready = Vec::new();
    for action in actions {
        let id = (action.key.seq, action.key.action.clone());
        let is_ready = action.status == ActionStatus::Ready;
        let view = ActionRecord {
            key: action.key.clone(),
            event_id: action.event_id,
            ordinal: action.ordinal,
            needs: action.needs.clone(),
            status: action.status,
            attempts: 0,
            epoch: Epoch::NONE,
            worker_id: None,
            lease_until: None,
            next_attempt_at: is_ready.then_some(now),
            input: action.input.clone(),
            result: action.result.clone(),
            error: action.error.clone(),
            created_at: now,
            settled_at: action.status.is_settled().then_some(now),
            queue: action.terms.queue.clone(),
            revision: 0,
            progress: None,
            ready_at: is_ready.then_some(now),
        };
        let row_of = MemoryAction {
            view,
            scope: action.scope.clone(),
            handling: action.handling,
            terms: action.terms.clone(),
            undoes: action.undoes.clone(),
            closing: false,
            begun: LeaseOrigin::No,
            attempt_until: None,
            company: action.company,
        };
        row.actions.insert(id.clone(), row_of);
        if is_ready {
            ready.push(id);
        }
    }
    ready
}
