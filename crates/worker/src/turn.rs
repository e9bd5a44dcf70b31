//! Maps a turn of the state machine to one commit: pure, and the only place that knows the mapping.
//!
//! The machine returns decisions; the store needs rows. This mapping adds the immediate effects: actions
//! without outside effect are settled in the same commit, actions that cannot be rendered fail in it, their
//! dependents become ready or are skipped, and their outcome events are appended in it. A cancellation in the
//! same turn cancels the actions decided before it. This file performs no I/O; the caller supplies new ids.

use std::collections::{BTreeMap, BTreeSet};

use millstream_core::action::{self, ActionError, Attempt, Conclusion, ErrorClass, OnFailure};
use millstream_core::graph;
use millstream_core::id::{AcceptNo, ActionKey, DefinitionRef, EventId, ExecutionKey, Name, Seq};
use millstream_core::log::{Applied, ArmedTimer, Outcome, Plan, PlannedAction, State, Turn, Waiting};
use millstream_core::machine::{self, ActionInput, Machine, Snapshot};
use millstream_core::program::Program;
use millstream_core::raw::RawJson;
use millstream_core::status::{ActionStatus, EventStatus, Phase};
use millstream_core::terms::Terms;
use millstream_rpc::graph_rows::{self, Blob};
use millstream_store::action_store::Handling;
use millstream_store::event_log::NewEvent;
use millstream_store::execution_store::{
    Commit, Company, Decided, EventVerdict, NewAction, OpenActions, SnapshotWrite,
};
use millstream_store::outcome;

/// The execution's state before the turn.
#[derive(Debug)]
pub(crate) struct Before {
    pub(crate) execution: ExecutionKey,
    pub(crate) definition: DefinitionRef,
    pub(crate) seq: Seq,
    pub(crate) snapshot_seq: Seq,
    pub(crate) entered_seq: Seq,
    pub(crate) state: Name,
    pub(crate) phase: Phase,
}

impl Before {
    pub(crate) fn of(
        execution: ExecutionKey,
        definition: DefinitionRef,
        snapshot_seq: Seq,
        state: &State,
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
pub(crate) struct Decision {
    pub(crate) commit: Commit,
    pub(crate) lines: Vec<Line>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) key: ActionKey,
    pub(crate) text: String,
}

/// `None` when the turn decided nothing. Without a program there can be no actions to conclude.
pub(crate) fn decision(
    program: Option<&Program>,
    before: Before,
    turn: Turn,
    mailbox: &[Waiting],
    new_id: &mut dyn FnMut() -> EventId,
) -> Option<Decision> {
    if turn.outcomes.is_empty() {
        return None;
    }
    let mut writing = Writing {
        program,
        execution: &before.execution,
        waiting: mailbox.iter().map(|event| (event.event_id, event)).collect(),
        new_id,
        rows: Rows::default(),
    };
    let mut at = before.state.clone();
    for (event_id, outcome) in turn.outcomes {
        let verdict = match outcome {
            Outcome::Applied(applied) => {
                at = applied.transition.decision.to.clone();
                writing.applied(event_id, *applied)
            }
            Outcome::Rejected { reason } => EventVerdict::Rejected { state: at.clone(), reason },
            Outcome::Deferred => EventVerdict::Deferred,
        };
        writing.decided(event_id, verdict);
    }
    let mut rows = writing.rows;
    let by_request = rows.transitions.last().is_some_and(|last| last.name.is_end());
    let is_graph = turn.state.graph.is_some();
    let open_actions = open_actions(&before, &turn.state, by_request || is_graph);
    match open_actions {
        OpenActions::Keep => {}
        OpenActions::Cancel => rows.cancel_open(),
    }
    let timers = still_valid(rows.timers, &turn.state);
    let snapshot = snapshot(&before, &turn.state);
    let graph = turn.state.graph.as_ref().filter(|_| !rows.transitions.is_empty()).map(|graph| {
        let payload =
            |event_id| mailbox.iter().find(|event| event.event_id == event_id).map(|event| &event.payload);
        let blob = match snapshot {
            SnapshotWrite::Write => Blob::Write,
            SnapshotWrite::Skip => Blob::Skip,
        };
        Box::new(graph_rows::of_commit(&rows.transitions, &payload, graph, blob))
    });
    let commit = Commit {
        expected: before.seq,
        snapshot,
        cancelled_timers: cancelled_timers(program.and_then(Program::machine), &before, &turn.state),
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
    Some(Decision { commit, lines: rows.lines })
}

#[derive(Default)]
struct Rows {
    transitions: Vec<millstream_core::log::Transition>,
    decided: Vec<Decided>,
    timers: Vec<ArmedTimer>,
    actions: Vec<NewAction>,
    emitted: Vec<NewEvent>,
    lines: Vec<Line>,
}

impl Rows {
    /// Cancels new actions, which the store does not have yet. Their events have no outcomes left to wait
    /// for.
    fn cancel_open(&mut self) {
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

struct Writing<'a> {
    program: Option<&'a Program>,
    execution: &'a ExecutionKey,
    waiting: BTreeMap<EventId, &'a Waiting>,
    new_id: &'a mut dyn FnMut() -> EventId,
    rows: Rows,
}

impl Writing<'_> {
    fn machine(&self) -> Option<&Machine> {
        self.program.and_then(Program::machine)
    }

    fn trace(&self, event_id: EventId) -> Option<String> {
        self.waiting.get(&event_id).and_then(|event| event.traceparent.clone())
    }

    /// Every outcome belongs to an event of the mailbox.
    fn decided(&mut self, event_id: EventId, verdict: EventVerdict) {
        let accept_no = self.waiting.get(&event_id).map_or(AcceptNo(0), |event| event.accept_no);
        self.rows.decided.push(Decided { event_id, accept_no, verdict });
    }

    fn applied(&mut self, event_id: EventId, applied: Applied) -> EventVerdict {
        let Applied { transition, actions } = applied;
        let statuses = statuses(&actions);
        let mut failure = None;
        for planned in actions {
            let status = statuses.get(&planned.name).copied().unwrap_or(ActionStatus::Waiting);
            if let Some(reason) = self.action(event_id, transition.seq, planned, status) {
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
    fn action(
        &mut self,
        event_id: EventId,
        seq: Seq,
        planned: PlannedAction,
        status: ActionStatus,
    ) -> Option<String> {
        let key = ActionKey { execution: self.execution.clone(), seq, action: planned.name.clone() };
        let mut row = NewAction {
            key: key.clone(),
            event_id,
            traceparent: self.trace(event_id),
            ordinal: planned.ordinal,
            needs: planned.needs,
            status,
            input: None,
            scope: None,
            result: None,
            error: None,
            handling: Handling::Unhandled,
            terms: self.terms(&key.action, &planned.plan),
            undoes: self.undoes(&key.action),
            incident: None,
            company: self.company(),
        };
        let attempt = match planned.plan {
            Plan::Inline { input, result } => {
                if let Ok(ActionInput::Log(text)) = input.decode() {
                    self.rows.lines.push(Line { key: key.clone(), text });
                }
                row.input = Some(input);
                Some((1, Attempt::Success { result }))
            }
            Plan::Ready { input } => {
                row.input = Some(input);
                None
            }
            Plan::Waiting { scope } | Plan::Standby { scope } => {
                row.scope = Some(scope);
                None
            }
            Plan::Broken { error, scope } => {
                row.scope = Some(scope);
                let error = ActionError { class: ErrorClass::Input, message: error, status: None };
                Some((0, Attempt::Permanent { error }))
            }
        };
        let reason = attempt.and_then(|(attempts, attempt)| self.conclude(&mut row, attempts, attempt));
        self.rows.actions.push(row);
        reason
    }

    fn company(&self) -> Company {
        match self.program {
            Some(Program::Graph) => Company::Independent,
            Some(Program::Machine(_)) | None => Company::Together,
        }
    }

    /// An action that no definition declares is the engine's own, or an attempt at a node.
    fn terms(&self, action: &Name, plan: &Plan) -> Terms {
        if let (Some(Program::Graph), Plan::Ready { input }) = (self.program, plan)
            && let Ok(ActionInput::Node(input)) = input.decode()
        {
            return Terms::of_node(&input, &self.execution.tenant);
        }
        let spec = self.machine().and_then(|machine| machine.action(action));
        let tenant = &self.execution.tenant;
        spec.map_or_else(|| Terms::engine_of(tenant), |spec| Terms::of(spec, tenant))
    }

    fn undoes(&self, action: &Name) -> Option<Name> {
        self.machine().and_then(|machine| machine.action(action)).and_then(|spec| spec.undoes.clone())
    }

    fn conclude(&mut self, row: &mut NewAction, attempts: u32, attempt: Attempt) -> Option<String> {
        let Some(spec) = self.machine().and_then(|machine| machine.action(&row.key.action)) else {
            return Some(format!("action {} is not in the definition", row.key.action));
        };
        let key = row.key.to_string();
        let (emit, reason) = match action::conclude(spec, &key, attempts, attempt, 0.0) {
            Conclusion::Succeeded { result, emit } => {
                row.result = Some(result);
                (emit, None)
            }
            Conclusion::Failed { error, then } => {
                row.error = Some(RawJson::of(&error));
                match then {
                    OnFailure::Emit(name, payload) => {
                        row.handling = Handling::Handled;
                        (Some((name, payload)), None)
                    }
                    OnFailure::Incident | OnFailure::Compensate => {
                        let incident = outcome::incident(&row.key, &error, (self.new_id)());
                        let reason = incident.reason.clone();
                        row.incident = Some(incident);
                        (None, Some(reason))
                    }
                }
            }
            Conclusion::Retry { wait: _, error } => {
                row.error = Some(RawJson::of(&error));
                (None, None)
            }
        };
        if let Some((name, payload)) = emit {
            let event = outcome::event((self.new_id)(), &row.key, name, payload, row.traceparent.clone());
            self.rows.emitted.push(event);
        }
        reason
    }
}

/// Status of each action of one `do` list at the end of the commit. Only this commit can release or skip the
/// dependents of an action settled in it, so it does so down to the last dependent.
fn statuses(actions: &[PlannedAction]) -> BTreeMap<Name, ActionStatus> {
    let first = |planned: &PlannedAction| match planned.plan {
        Plan::Inline { .. } => ActionStatus::Succeeded,
        Plan::Ready { .. } => ActionStatus::Ready,
        Plan::Waiting { .. } => ActionStatus::Waiting,
        Plan::Standby { .. } => ActionStatus::Standby,
        Plan::Broken { .. } => ActionStatus::Failed,
    };
    let mut statuses: BTreeMap<_, _> =
        actions.iter().map(|planned| (planned.name.clone(), first(planned))).collect();
    // Each pass settles at least one more level of dependents.
    let waiting = actions.iter().filter(|planned| matches!(planned.plan, Plan::Waiting { .. }));
    for _ in 0..waiting.count() {
        for planned in actions {
            if statuses.get(&planned.name) == Some(&ActionStatus::Waiting) {
                let next = after_needs(&planned.needs, &statuses);
                statuses.insert(planned.name.clone(), next);
            }
        }
    }
    statuses
}

fn after_needs(needs: &[Name], statuses: &BTreeMap<Name, ActionStatus>) -> ActionStatus {
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
fn still_valid(timers: Vec<ArmedTimer>, after: &State) -> Vec<ArmedTimer> {
    let valid = |timer: &ArmedTimer| {
        !after.phase.is_ended()
            && (timer.armed_seq == ArmedTimer::EXECUTION_TIMEOUT || timer.armed_seq == after.entered_seq)
    };
    timers.into_iter().filter(valid).collect()
}

/// Timers that the definition never arms need no search.
fn cancelled_timers(machine: Option<&Machine>, before: &Before, after: &State) -> Vec<Seq> {
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
fn open_actions(before: &Before, after: &State, takes_actions_along: bool) -> OpenActions {
    if takes_actions_along && after.phase.is_ended() && !before.phase.is_ended() {
        OpenActions::Cancel
    } else {
        OpenActions::Keep
    }
}

fn snapshot(before: &Before, after: &State) -> SnapshotWrite {
    if after.seq == before.seq {
        return SnapshotWrite::Skip;
    }
    let since = u32::try_from(after.seq.0.saturating_sub(before.snapshot_seq.0)).unwrap_or(u32::MAX);
    let due = match &after.graph {
        Some(_) if after.phase.is_ended() => Snapshot::Write,
        Some(graph) => graph::snapshot_due(graph.nodes.len(), since),
        None => machine::snapshot_due(after.context_bytes(), since),
    };
    match due {
        Snapshot::Write => SnapshotWrite::Write,
        Snapshot::Skip => SnapshotWrite::Skip,
    }
}

#[cfg(test)]
mod tests;
