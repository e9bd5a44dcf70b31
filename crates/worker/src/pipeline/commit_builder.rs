//! Maps a turn of the state machine to one commit: pure, and the only place that knows the mapping.
//!
//! The machine returns decisions; the store needs rows. This mapping adds the immediate effects: actions
//! without outside effect are settled in the same commit, actions that cannot be rendered fail in it, their
//! dependents become ready or are skipped, and their outcome events are appended in it. A cancellation in the
//! same turn cancels the actions decided before it. This file performs no I/O; the caller supplies new ids.

use std::collections::{BTreeMap, BTreeSet};

use millstream_model::attempt::{ActionFailure, AttemptOutcome};
use millstream_model::error_class::ErrorClass;
use millstream_model::id::{AcceptNo, ActionKey, DefinitionRef, EventId, ExecutionKey, Name, Seq};
use millstream_model::status::{ActionStatus, EventStatus, ExecutionPhase};
use millstream_model::time::Timestamp;
use millstream_rpc::graph_rows::{self, GraphBlobWrite};
use millstream_store::action_store::FailureHandling;
use millstream_store::event_log::EventSubmission;
use millstream_store::execution_store::{
    ActionRelation, DecidedEvent, EventVerdict, ExecutionCommit, NewAction, OpenActions, SnapshotWrite,
};
use millstream_workflow::action;
use millstream_workflow::graph_machine;
use millstream_workflow::lease_policy::LeasePolicy;
use millstream_workflow::log::{
    ActionPlan, AppliedEvent, ArmedTimer, EventOutcome, ExecutionState, MailboxEvent, PlannedAction,
    Transition, VisitDecisions,
};
use millstream_workflow::machine::{self, ActionInput, Machine, SnapshotDecision};
use millstream_workflow::program::ExecutionProgram;
use millstream_workflow::settle_outcome::{ActionAttempt, AfterFailure, SettleOutcome};

/// The execution's state before the turn.
#[derive(Debug)]
pub(crate) struct StateBeforeTurn {
    pub(crate) execution: ExecutionKey,
    pub(crate) definition: DefinitionRef,
    pub(crate) seq: Seq,
    pub(crate) snapshot_seq: Seq,
    pub(crate) entered_seq: Seq,
    pub(crate) state: Name,
    pub(crate) phase: ExecutionPhase,
}

impl StateBeforeTurn {
    pub(crate) fn of_state(
        execution: ExecutionKey,
        definition: DefinitionRef,
        snapshot_seq: Seq,
        state: &ExecutionState,
    ) -> Self {
        Self {
            execution,
            definition,
            seq: state.seq,
            snapshot_seq,
            entered_seq: state.entered_seq,
            state: state.state.clone(),
            phase: state.phase,
        }
    }
}

/// A commit, and the lines that its inline `log` actions write once it is durable.
#[derive(Debug)]
pub(crate) struct TurnCommit {
    pub(crate) commit: ExecutionCommit,
    pub(crate) lines: Vec<LogLine>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LogLine {
    pub(crate) key: ActionKey,
    pub(crate) text: String,
}

/// `None` when the turn decided nothing. Without a program there can be no actions to conclude.
pub(crate) fn build_commit(
    program: Option<&ExecutionProgram>,
    before: StateBeforeTurn,
    turn: VisitDecisions,
    mailbox: &[MailboxEvent],
    new_id: &mut dyn FnMut() -> EventId,
) -> Option<TurnCommit> {
    if turn.outcomes.is_empty() {
        return None;
    }
    let mut writing = CommitBuilder {
        program,
        execution: &before.execution,
        waiting: mailbox.iter().map(|event| (event.event_id, event)).collect(),
        new_id,
        rows: TurnRows::default(),
    };
    let mut at = before.state.clone();
    for (event_id, outcome) in turn.outcomes {
        let verdict = match outcome {
            EventOutcome::Applied(applied) => {
                at = applied.transition.decision.to.clone();
                writing.apply_event(event_id, *applied)
            }
            EventOutcome::Rejected { reason } => EventVerdict::Rejected { state: at.clone(), reason },
            EventOutcome::Deferred => EventVerdict::Deferred,
        };
        writing.add_decided_event(event_id, verdict);
    }
    let mut rows = writing.rows;
    let by_request = rows.transitions.last().is_some_and(|last| last.name.is_end());
    let is_graph = turn.state.graph.is_some();
    let open_actions = open_actions_after(&before, &turn.state, by_request || is_graph);
    match open_actions {
        OpenActions::Keep => {}
        OpenActions::Cancel => rows.cancel_new_actions(),
    }
    let timers = retain_valid_timers(rows.timers, &turn.state);
    let snapshot = snapshot_write(&before, &turn.state);
    let graph = turn.state.graph.as_ref().filter(|_| !rows.transitions.is_empty()).map(|graph| {
        let payload =
            |event_id| mailbox.iter().find(|event| event.event_id == event_id).map(|event| &event.payload);
        let blob = match snapshot {
            SnapshotWrite::Write => GraphBlobWrite::Write,
            SnapshotWrite::Skip => GraphBlobWrite::Skip,
        };
        Box::new(graph_rows::rows_of_commit(&rows.transitions, &payload, graph, blob))
    });
    let commit = ExecutionCommit {
        expected: before.seq,
        snapshot,
        cancelled_timers: cancelled_timers(program.and_then(ExecutionProgram::machine), &before, &turn.state),
        open_actions,
        execution: before.execution,
        definition: before.definition,
        state: turn.state,
        transitions: rows.transitions,
        decided: rows.decided,
        timers,
        actions: rows.actions,
        emitted: rows.emitted,
        graph,
    };
    Some(TurnCommit { commit, lines: rows.lines })
}

#[derive(Default)]
struct TurnRows {
    transitions: Vec<millstream_workflow::log::Transition>,
    decided: Vec<DecidedEvent>,
    timers: Vec<ArmedTimer>,
    actions: Vec<NewAction>,
    emitted: Vec<EventSubmission>,
    lines: Vec<LogLine>,
}

impl TurnRows {
    /// Cancels new actions, which the store does not have yet. Their events have no outcomes left to wait
    /// for.
    fn cancel_new_actions(&mut self) {
        // The engine's own actions at the end of an execution remain.
        for action in &mut self.actions {
            if !action.status.is_settled() && !action.key.action.is_reserved() {
                action.status = ActionStatus::Cancelled;
            }
        }
        let open: BTreeSet<EventId> = self
            .actions
            .iter()
            .filter(|action| !action.status.is_settled())
            .map(|action| action.event_id)
            .collect();
        for decided in &mut self.decided {
            match &mut decided.verdict {
                EventVerdict::Applied { status: status @ EventStatus::Processing, .. }
                    if !open.contains(&decided.event_id) =>
                {
                    *status = EventStatus::Completed;
                }
                EventVerdict::Applied { .. } | EventVerdict::Rejected { .. } | EventVerdict::Deferred => {}
            }
        }
    }
}

struct CommitBuilder<'a> {
    program: Option<&'a ExecutionProgram>,
    execution: &'a ExecutionKey,
    waiting: BTreeMap<EventId, &'a MailboxEvent>,
    new_id: &'a mut dyn FnMut() -> EventId,
    rows: TurnRows,
}

impl<'a> CommitBuilder<'a> {
    fn state_machine(&self) -> Option<&'a Machine> {
        self.program.and_then(ExecutionProgram::machine)
    }

    fn trace_parent(&self, event_id: EventId) -> Option<String> {
        self.waiting.get(&event_id).and_then(|event| event.traceparent.clone())
    }

    /// Every outcome belongs to an event of the mailbox.
    fn add_decided_event(&mut self, event_id: EventId, verdict: EventVerdict) {
        let accept_no = self.waiting.get(&event_id).map_or(AcceptNo(0), |event| event.accept_no);
        self.rows.decided.push(DecidedEvent { event_id, accept_no, verdict });
    }

    fn apply_event(&mut self, event_id: EventId, applied: AppliedEvent) -> EventVerdict {
        let AppliedEvent { transition, actions } = applied;
        let statuses = action_statuses(&actions);
        let mut failure = None;
        for planned in actions {
            let status = statuses.get(&planned.name).copied().unwrap_or(ActionStatus::Waiting);
            if let Some(reason) = self.add_action(&transition, event_id, planned, status) {
                failure.get_or_insert(reason);
            }
        }
        let status = match &failure {
            Some(_) => EventStatus::Failed,
            None if statuses.values().all(|status| status.is_settled()) => EventStatus::Completed,
            None => EventStatus::Processing,
        };
        let verdict = EventVerdict::Applied {
            seq: transition.seq,
            from: transition.decision.from.clone(),
            to: transition.decision.to.clone(),
            status,
            error: failure,
        };
        self.rows.timers.extend(transition.decision.timers.iter().cloned());
        self.rows.transitions.push(transition);
        verdict
    }

    /// Writes one action's row; returns the reason when it failed and no handler covers that.
    fn add_action(
        &mut self,
        transition: &Transition,
        event_id: EventId,
        planned: PlannedAction,
        status: ActionStatus,
    ) -> Option<String> {
        let key = ActionKey {
            execution: self.execution.clone(),
            seq: transition.seq,
            action: planned.name.clone(),
        };
        let mut row = NewAction {
            key: key.clone(),
            event_id,
            traceparent: self.trace_parent(event_id),
            ordinal: planned.ordinal,
            needs: planned.needs,
            status,
            input: None,
            scope: None,
            result: None,
            error: None,
            handling: FailureHandling::Unhandled,
            terms: self.lease_terms(&key.action, &planned.plan),
            undoes: self.compensated_action(&key.action),
            incident: None,
            company: self.siblings(),
        };
        let attempt = match planned.plan {
            ActionPlan::Inline { input, result } => {
                if let Ok(ActionInput::Log(text)) = input.decode() {
                    self.rows.lines.push(LogLine { key: key.clone(), text });
                }
                row.input = Some(input);
                Some((1, AttemptOutcome::Success { result }))
            }
            ActionPlan::Ready { input } => {
                row.input = Some(input);
                None
            }
            ActionPlan::Waiting { scope } | ActionPlan::Standby { scope } => {
                row.scope = Some(scope);
                None
            }
            ActionPlan::Broken { error, scope } => {
                row.scope = Some(scope);
                let error = ActionFailure { class: ErrorClass::Input, message: error, status: None };
                Some((0, AttemptOutcome::Permanent { error }))
            }
        };
        let reason = attempt
            .and_then(|(attempts, attempt)| self.conclude_action(&mut row, attempts, attempt, transition.at));
        self.rows.actions.push(row);
        reason
    }

    fn siblings(&self) -> ActionRelation {
        match self.program {
            Some(ExecutionProgram::Graph) => ActionRelation::Independent,
            Some(ExecutionProgram::Machine(_)) | None => ActionRelation::Together,
        }
    }

    /// An action that no definition declares is the engine's own, or an attempt at a node.
    fn lease_terms(&self, action: &Name, plan: &ActionPlan) -> LeasePolicy {
        if let (Some(ExecutionProgram::Graph), ActionPlan::Ready { input }) = (self.program, plan)
            && let Ok(ActionInput::Node(input)) = input.decode()
        {
            return LeasePolicy::of_node(&input, &self.execution.tenant);
        }
        let spec = self.state_machine().and_then(|machine| machine.action_spec(action));
        let tenant = &self.execution.tenant;
        spec.map_or_else(|| LeasePolicy::engine_of(tenant), |spec| LeasePolicy::of_action(spec, tenant))
    }

    fn compensated_action(&self, action: &Name) -> Option<Name> {
        self.state_machine()
            .and_then(|machine| machine.action_spec(action))
            .and_then(|spec| spec.undoes.clone())
    }

    fn conclude_action(
        &mut self,
        row: &mut NewAction,
        attempts: i32,
        attempt: AttemptOutcome,
        now: Timestamp,
    ) -> Option<String> {
        let Some(spec) = self.state_machine().and_then(|machine| machine.action_spec(&row.key.action)) else {
            return Some(format!("action {} is not in the definition", row.key.action));
        };
        let traceparent = row.traceparent.clone();
        let traceparent = traceparent.as_deref();
        let whose = ActionAttempt { key: &row.key, revision: 0, attempts, ready_at: None, traceparent };
        let outcome = action::conclude_attempt(&spec.policy, whose, attempt, 0.0, now, self.new_id);
        match outcome {
            SettleOutcome::Succeeded { result, emit } => {
                row.result = Some(result);
                self.rows.emitted.extend(emit.map(|event| *event));
                None
            }
            SettleOutcome::Failed { error, then } => {
                let incident = match then {
                    AfterFailure::Emit(event) => {
                        row.handling = FailureHandling::Handled;
                        self.rows.emitted.push(*event);
                        None
                    }
                    AfterFailure::Incident(incident) => Some(incident),
                    // Its siblings are not committed yet: there is nothing to be undone.
                    AfterFailure::Compensate => {
                        let error = ActionFailure::of_recorded(&error);
                        Some(action::failure_incident(&row.key, &error, (self.new_id)()))
                    }
                };
                row.error = Some(error);
                row.incident = incident;
                row.incident.as_ref().map(|incident| incident.reason.clone())
            }
            SettleOutcome::Retry { error, at: _ } => {
                row.error = Some(error);
                None
            }
            SettleOutcome::Postponed { at: _, error } => {
                row.error = error;
                None
            }
            SettleOutcome::Awaiting { until: _ } => None,
        }
    }
}

/// Status of each action of one `do` list at the end of the commit. Only this commit can release or skip the
/// dependents of an action settled in it, so it does so down to the last dependent.
fn action_statuses(actions: &[PlannedAction]) -> BTreeMap<Name, ActionStatus> {
    let first = |planned: &PlannedAction| match planned.plan {
        ActionPlan::Inline { .. } => ActionStatus::Succeeded,
        ActionPlan::Ready { .. } => ActionStatus::Ready,
        ActionPlan::Waiting { .. } => ActionStatus::Waiting,
        ActionPlan::Standby { .. } => ActionStatus::Standby,
        ActionPlan::Broken { .. } => ActionStatus::Failed,
    };
    let mut statuses: BTreeMap<_, _> =
        actions.iter().map(|planned| (planned.name.clone(), first(planned))).collect();
    // Each pass settles at least one more level of dependents.
    let waiting = actions.iter().filter(|planned| matches!(planned.plan, ActionPlan::Waiting { .. }));
    for _ in 0..waiting.count() {
        for planned in actions {
            if statuses.get(&planned.name) == Some(&ActionStatus::Waiting) {
                let next = status_after_needs(&planned.needs, &statuses);
                statuses.insert(planned.name.clone(), next);
            }
        }
    }
    statuses
}

fn status_after_needs(needs: &[Name], statuses: &BTreeMap<Name, ActionStatus>) -> ActionStatus {
    let mut all_succeeded = true;
    for need in needs {
        match statuses.get(need) {
            Some(ActionStatus::Succeeded) => {}
            Some(ActionStatus::Failed | ActionStatus::Skipped | ActionStatus::Cancelled) => {
                return ActionStatus::Skipped;
            }
            Some(
                ActionStatus::Waiting
                | ActionStatus::Ready
                | ActionStatus::Leased
                | ActionStatus::Awaiting
                | ActionStatus::Standby,
            )
            | None => {
                all_succeeded = false;
            }
        }
    }
    if all_succeeded { ActionStatus::Ready } else { ActionStatus::Waiting }
}

/// Removes the timers of states that were left again within the same commit.
fn retain_valid_timers(timers: Vec<ArmedTimer>, after: &ExecutionState) -> Vec<ArmedTimer> {
    let valid = |timer: &ArmedTimer| {
        !after.phase.is_ended()
            && (timer.armed_seq == ArmedTimer::EXECUTION_TIMEOUT || timer.armed_seq == after.entered_seq)
    };
    timers.into_iter().filter(valid).collect()
}

/// Timers that the definition never arms need no search.
fn cancelled_timers(machine: Option<&Machine>, before: &StateBeforeTurn, after: &ExecutionState) -> Vec<Seq> {
    let definition = machine.map(Machine::definition);
    let times_out = definition.is_none_or(|definition| definition.timeout().is_some());
    let state = definition.and_then(|definition| definition.states().get(&before.state));
    let arms = state.is_none_or(|state| !state.after.is_empty());
    let ends = after.phase.is_ended() && !before.phase.is_ended();
    let mut cancelled = Vec::new();
    if ends && times_out {
        cancelled.push(ArmedTimer::EXECUTION_TIMEOUT);
    }
    if arms && (ends || before.entered_seq != after.entered_seq) {
        cancelled.push(before.entered_seq);
    }
    cancelled
}

/// A cancelled execution, or an ended graph, no longer needs its open actions that have not begun.
fn open_actions_after(
    before: &StateBeforeTurn,
    after: &ExecutionState,
    takes_actions_along: bool,
) -> OpenActions {
    if takes_actions_along && after.phase.is_ended() && !before.phase.is_ended() {
        OpenActions::Cancel
    } else {
        OpenActions::Keep
    }
}

fn snapshot_write(before: &StateBeforeTurn, after: &ExecutionState) -> SnapshotWrite {
    if after.seq == before.seq {
        return SnapshotWrite::Skip;
    }
    let since = u32::try_from(after.seq.0.saturating_sub(before.snapshot_seq.0)).unwrap_or(u32::MAX);
    let due = match &after.graph {
        Some(_) if after.phase.is_ended() => SnapshotDecision::Write,
        Some(graph) => graph_machine::snapshot_due(graph.nodes.len(), since),
        None => machine::snapshot_due(after.context_bytes(), since),
    };
    match due {
        SnapshotDecision::Write => SnapshotWrite::Write,
        SnapshotDecision::Skip => SnapshotWrite::Skip,
    }
}

#[cfg(test)]
mod tests;
