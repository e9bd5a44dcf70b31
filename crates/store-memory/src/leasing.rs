//! The lease on one action, as commit, lease and settle all grant it.

use std::collections::BTreeMap;

use millstream_model::action_queue::ActionQueue;
use millstream_model::id::{Epoch, ExecutionKey, Name, Seq, WorkerId};
use millstream_model::mutation::{self, Mutation};
use millstream_model::status::ActionStatus;
use millstream_model::time::Timestamp;
use millstream_store::action_store::{Lease, LeasedAction};
use millstream_store::execution_store::LeaseGrant;

use crate::tables::{MemoryAction, MemoryExecution, MemoryTables};

/// Lease an action to a worker: epoch and attempt grow by one. Reporting a failure is no attempt.
pub(crate) fn grant(
    execution: &mut MemoryExecution,
    action: &(Seq, Name),
    worker: &WorkerId,
    grant: &LeaseGrant,
    now: Timestamp,
) -> Option<LeasedAction> {
    let row = execution.actions.get_mut(action)?;
    if !row.closing {
        row.view.attempts += 1;
    }
    hand_over(execution, action, worker, grant, now)
}

/// The same without counting an attempt.
pub(crate) fn hand_over(
    execution: &mut MemoryExecution,
    action: &(Seq, Name),
    worker: &WorkerId,
    grant: &LeaseGrant,
    now: Timestamp,
) -> Option<LeasedAction> {
    let row = execution.actions.get_mut(action)?;
    row.view.status = ActionStatus::Leased;
    row.view.epoch = Epoch(row.view.epoch.0 + 1);
    row.view.worker_id = Some(worker.clone());
    row.attempt_until = row.terms.attempt.map(|attempt| now.plus(attempt));
    let until = row.lease_until(grant, now);
    row.view.lease_until = Some(until);
    row.view.next_attempt_at = None;
    let row = execution.actions.get(action)?;
    let event = execution.events.values().find(|event| event.view.event_id == row.view.event_id);
    Some(LeasedAction {
        lease: Lease { key: row.view.key.clone(), epoch: row.view.epoch },
        event_id: row.view.event_id,
        definition: execution.definition.clone(),
        attempt: row.view.attempts,
        input: row.view.input.clone(),
        scope: row.scope.clone(),
        results: dependency_results(execution, row),
        traceparent: event.and_then(|event| event.traceparent.clone()),
        lease_until: until,
        revision: row.view.revision,
        heartbeat: row.terms.heartbeat,
        progress: row.view.progress.clone(),
        ready_at: row.view.ready_at.unwrap_or(row.view.created_at),
        closing: if row.closing { row.view.error.clone() } else { None },
        begun: row.begun,
    })
}

/// Results of its dependencies that have succeeded.
fn dependency_results(
    execution: &MemoryExecution,
    action: &MemoryAction,
) -> BTreeMap<Name, millstream_model::raw::RawJson> {
    let seq = action.view.key.seq;
    let result = |need: &Name| {
        let needed = execution.actions.get(&(seq, need.clone()))?;
        needed.view.result.clone().map(|result| (need.clone(), result))
    };
    action.view.needs.iter().filter_map(result).collect()
}

impl MemoryTables {
    /// The action under a lease, if that lease is still held.
    pub(crate) fn held_action(&mut self, lease: &Lease) -> Option<&mut MemoryAction> {
        self.held_or_awaiting_action(lease).filter(|action| action.view.status == ActionStatus::Leased)
    }

    /// The same, or one that awaits its outcome from outside.
    pub(crate) fn held_or_awaiting_action(&mut self, lease: &Lease) -> Option<&mut MemoryAction> {
        let row = self.executions.get_mut(&lease.key.execution)?;
        let action = row.actions.get_mut(&(lease.key.seq, lease.key.action.clone()))?;
        let current = action.view.epoch == lease.epoch || mutation::is_active(Mutation::AnyToken);
        let held = matches!(action.view.status, ActionStatus::Leased | ActionStatus::Awaiting) && current;
        held.then_some(action)
    }

    /// Round robin over queues: the first of each queue, then the second of each. No queue blocks another.
    pub(crate) fn round_robin(
        &self,
        due: Vec<(ExecutionKey, (Seq, Name))>,
    ) -> Vec<(ExecutionKey, (Seq, Name))> {
        let mut ranks: BTreeMap<Option<ActionQueue>, usize> = BTreeMap::new();
        let mut ranked: Vec<_> = due
            .into_iter()
            .map(|(key, action)| {
                let row = self.executions.get(&key).and_then(|row| row.actions.get(&action));
                let rank = ranks.entry(row.map(|row| row.terms.queue.clone())).or_default();
                *rank += 1;
                (*rank, (key, action))
            })
            .collect();
        ranked.sort_by_key(|(rank, _)| *rank);
        ranked.into_iter().map(|(_, due)| due).collect()
    }

    /// Actions whose time has come, the longest due first.
    pub(crate) fn due_actions(
        &self,
        now: Timestamp,
        time: impl Fn(&MemoryAction) -> Option<Timestamp>,
    ) -> Vec<(ExecutionKey, (Seq, Name))> {
        let mut due: Vec<_> = self
            .executions
            .iter()
            .flat_map(|(key, row)| row.actions.iter().map(move |(action, row)| (key, action, row)))
            .filter_map(|(key, action, row)| Some((time(row)?, key, action)))
            .filter(|(at, _, _)| *at <= now)
            .collect();
        due.sort();
        due.into_iter().map(|(_, key, action)| (key.clone(), action.clone())).collect()
    }
}

impl MemoryAction {
    /// When it may be leased next, if ever.
    pub(crate) fn due_at(&self) -> Option<Timestamp> {
        match self.view.status {
            ActionStatus::Ready => self.view.next_attempt_at,
            ActionStatus::Leased | ActionStatus::Awaiting => self.view.lease_until,
            ActionStatus::Waiting
            | ActionStatus::Standby
            | ActionStatus::Succeeded
            | ActionStatus::Failed
            | ActionStatus::Skipped
            | ActionStatus::Cancelled => None,
        }
    }

    /// When the engine's deadline sweep has to look at it.
    pub(crate) fn expires_at(&self) -> Option<Timestamp> {
        let ready_at = self.view.ready_at?;
        let close_by = self.terms.close.map(|limit| ready_at.plus(limit));
        match (self.view.status, self.view.lease_until) {
            (ActionStatus::Ready, _) => {
                let start = if self.view.attempts == 0 { self.terms.start } else { None };
                start.map(|limit| ready_at.plus(limit)).into_iter().chain(close_by).min()
            }
            (ActionStatus::Leased, Some(until)) if self.terms.attempt.is_some() => Some(until),
            (ActionStatus::Leased, Some(until)) => close_by.map(|close_by| close_by.max(until)),
            (
                ActionStatus::Leased
                | ActionStatus::Waiting
                | ActionStatus::Awaiting
                | ActionStatus::Standby
                | ActionStatus::Succeeded
                | ActionStatus::Failed
                | ActionStatus::Skipped
                | ActionStatus::Cancelled,
                _,
            ) => None,
        }
    }

    /// When a lease that is granted or renewed now ends.
    pub(crate) fn lease_until(&self, grant: &LeaseGrant, now: Timestamp) -> Timestamp {
        let until = now.plus(self.terms.heartbeat.or(self.terms.attempt).unwrap_or(grant.ttl));
        self.attempt_until.map_or(until, |end| until.min(end))
    }

    /// Ready from `at` on; the previous lease is void.
    pub(crate) fn make_ready(&mut self, at: Timestamp) {
        self.view.status = ActionStatus::Ready;
        self.view.next_attempt_at = Some(at);
        self.view.lease_until = None;
        self.view.worker_id = None;
        self.view.settled_at = None;
    }

    /// Ready for the first time, or for the first time since it was reopened.
    pub(crate) fn become_ready(&mut self, now: Timestamp) {
        self.make_ready(now);
        self.view.ready_at = Some(now);
    }

    pub(crate) fn settle_as(&mut self, status: ActionStatus, now: Timestamp) {
        self.view.status = status;
        self.view.next_attempt_at = None;
        self.view.lease_until = None;
        self.view.settled_at = Some(now);
        self.closing = false;
    }
}
