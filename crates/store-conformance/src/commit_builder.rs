//! Builder for a worker's visit to an execution: its decisions, in order.

use millstream_model::id::{AcceptNo, ActionKey, EventId, ExecutionKey, Name, Seq};
use millstream_model::status::{ActionStatus, EventStatus, ExecutionPhase};
use millstream_model::time::Timestamp;
use millstream_store::action_store::{FailureHandling, LeasedAction};
use millstream_store::event_log::EventSubmission;
use millstream_store::execution_store::{
    ActionRelation, CommitVerdict, DecidedEvent, EventVerdict, ExecutionCommit, LeaseGrant, NewAction,
    OpenActions, SnapshotWrite,
};
use millstream_store::graph_store::GraphRows;
use millstream_workflow::lease_policy::LeasePolicy;
use millstream_workflow::log::{
    ArmedTimer, ExecutionState, FORMAT, StateEntry, Transition, TransitionDecision,
};
use millstream_workflow::machine::evolve;

use crate::ConformanceBench;
use crate::fixture::{grant, incident, name, order, raw, worker};

/// Builds one [`ExecutionCommit`].
#[derive(Debug, Clone)]
pub(crate) struct ConformanceVisit {
    commit: ExecutionCommit,
    now: Timestamp,
}

impl ConformanceVisit {
    /// Nothing decided yet, based on `state`.
    pub(crate) fn to(execution: &ExecutionKey, state: &ExecutionState, now: Timestamp) -> Self {
        let commit = ExecutionCommit {
            execution: execution.clone(),
            definition: order(),
            expected: state.seq,
            state: state.clone(),
            snapshot: SnapshotWrite::Write,
            transitions: Vec::new(),
            decided: Vec::new(),
            timers: Vec::new(),
            cancelled_timers: Vec::new(),
            actions: Vec::new(),
            emitted: Vec::new(),
            open_actions: OpenActions::Keep,
            graph: None,
        };
        Self { commit, now }
    }

    /// Apply an event without actions: it is completed at once.
    pub(crate) fn apply(self, event: EventId, to: &str) -> Self {
        self.transition(event, to, ExecutionPhase::Active, EventStatus::Completed)
    }

    /// Apply an event that ends the execution.
    pub(crate) fn end(self, event: EventId, to: &str, phase: ExecutionPhase) -> Self {
        self.transition(event, to, phase, EventStatus::Completed)
    }

    /// Apply an event with actions: it is processing while any is open.
    pub(crate) fn act(mut self, event: EventId, to: &str, actions: &[ConformanceAction]) -> Self {
        let open = actions.iter().any(|planned| !planned.status.is_settled());
        let status = if open { EventStatus::Processing } else { EventStatus::Completed };
        self = self.transition(event, to, ExecutionPhase::Active, status);
        let seq = self.commit.state.seq;
        for (planned, ordinal) in actions.iter().zip(0..) {
            self.commit.actions.push(planned.at(&self.commit.execution, seq, event, ordinal));
        }
        self
    }

    fn transition(mut self, event: EventId, to: &str, phase: ExecutionPhase, status: EventStatus) -> Self {
        let state = &self.commit.state;
        let (from, seq) = (state.state.clone(), state.seq.next());
        let transition = Transition {
            seq,
            event_id: event,
            name: name("step"),
            at: self.now.max(state.at),
            decision: TransitionDecision {
                format: FORMAT,
                branch: 0,
                from: Some(from.clone()),
                to: name(to),
                entered: StateEntry::Entered,
                set: [("step".to_owned(), raw(&seq.to_string()))].into(),
                phase,
                reason: None,
                timers: Vec::new(),
                actions: Vec::new(),
                parent: None,
                correlation: None,
                graph: None,
            },
        };
        self.commit.state = evolve(Some(self.commit.state), &transition);
        self.commit.transitions.push(transition);
        let verdict = EventVerdict::Applied { seq, from: Some(from), to: name(to), status, error: None };
        self.decide(event, verdict);
        self
    }

    /// Give the last transition the name of its event.
    pub(crate) fn named(mut self, event: &str) -> Self {
        if let Some(last) = self.commit.transitions.last_mut() {
            last.name = name(event);
        }
        self
    }

    /// Mark the event applied last as failed.
    pub(crate) fn failing(mut self, reason: &str) -> Self {
        if let Some(DecidedEvent { verdict: EventVerdict::Applied { status, error, .. }, .. }) =
            self.commit.decided.last_mut()
        {
            *status = EventStatus::Failed;
            *error = Some(reason.to_owned());
        }
        self
    }

    /// Open an incident for each failed and unhandled action.
    pub(crate) fn with_incidents(mut self, reason: &str) -> Self {
        let is_lost = |action: &&mut NewAction| {
            action.status == ActionStatus::Failed && action.handling == FailureHandling::Unhandled
        };
        for action in self.commit.actions.iter_mut().filter(is_lost) {
            action.incident = Some(incident(reason));
        }
        self
    }

    pub(crate) fn reject(mut self, event: EventId, reason: &str) -> Self {
        let verdict =
            EventVerdict::Rejected { state: self.commit.state.state.clone(), reason: reason.to_owned() };
        self.decide(event, verdict);
        self
    }

    pub(crate) fn defer(mut self, event: EventId) -> Self {
        self.decide(event, EventVerdict::Deferred);
        self
    }

    /// The position in the mailbox is looked up when the visit is committed.
    fn decide(&mut self, event_id: EventId, verdict: EventVerdict) {
        self.commit.decided.push(DecidedEvent { event_id, accept_no: AcceptNo(0), verdict });
    }

    /// The trace that the events of this visit belong to.
    pub(crate) fn tracing(mut self, traceparent: &str) -> Self {
        for action in &mut self.commit.actions {
            action.traceparent = Some(traceparent.to_owned());
        }
        self
    }

    pub(crate) fn without_snapshot(mut self) -> Self {
        self.commit.snapshot = SnapshotWrite::Skip;
        self
    }

    pub(crate) fn graph(mut self, rows: GraphRows) -> Self {
        self.commit.graph = Some(Box::new(rows));
        self
    }

    pub(crate) fn arm(mut self, timers: Vec<ArmedTimer>) -> Self {
        self.commit.timers.extend(timers);
        self
    }

    pub(crate) fn disarm(mut self, armed: Seq) -> Self {
        self.commit.cancelled_timers.push(armed);
        self
    }

    pub(crate) fn emit(mut self, event: EventSubmission) -> Self {
        self.commit.emitted.push(event);
        self
    }

    /// Let the last transition set this correlation.
    pub(crate) fn correlating(mut self, correlation: &str) -> Self {
        if let Some(last) = self.commit.transitions.last_mut() {
            last.decision.correlation = Some(correlation.to_owned());
        }
        self.commit.state.correlation = Some(correlation.to_owned());
        self
    }

    pub(crate) fn cancel_open_actions(mut self) -> Self {
        self.commit.open_actions = OpenActions::Cancel;
        self
    }

    /// Claim to be based on another seq than the state's.
    pub(crate) fn expecting(mut self, seq: Seq) -> Self {
        self.commit.expected = seq;
        self
    }

    pub(crate) fn commit(self) -> ExecutionCommit {
        self.commit
    }
}

/// An action of a transition.
#[derive(Debug, Clone)]
pub(crate) struct ConformanceAction {
    name: Name,
    needs: Vec<Name>,
    pub(crate) status: ActionStatus,
    handling: FailureHandling,
    terms: LeasePolicy,
    undoes: Option<Name>,
    company: ActionRelation,
}

/// An action with its input rendered.
pub(crate) fn ready(action: &str) -> ConformanceAction {
    ConformanceAction { status: ActionStatus::Ready, ..waiting(action, &[]) }
}

/// An action with its input rendered whose dependencies were settled inline.
pub(crate) fn ready_after(action: &str, needs: &[&str]) -> ConformanceAction {
    ConformanceAction { status: ActionStatus::Ready, ..waiting(action, needs) }
}

/// An action that needs the results of others.
pub(crate) fn waiting(action: &str, needs: &[&str]) -> ConformanceAction {
    ConformanceAction {
        name: name(action),
        needs: needs.iter().map(|need| name(need)).collect(),
        status: ActionStatus::Waiting,
        handling: FailureHandling::Unhandled,
        terms: LeasePolicy::engine_for_all(),
        undoes: None,
        company: ActionRelation::Together,
    }
}

/// An action that is settled in the transition's own commit.
pub(crate) fn inline(action: &str) -> ConformanceAction {
    ConformanceAction { status: ActionStatus::Succeeded, ..waiting(action, &[]) }
}

/// An action that failed before it began.
pub(crate) fn broken(action: &str) -> ConformanceAction {
    ConformanceAction { status: ActionStatus::Failed, ..waiting(action, &[]) }
}

/// The same where an emitted event handles the failure.
pub(crate) fn broken_and_told(action: &str) -> ConformanceAction {
    ConformanceAction { handling: FailureHandling::Handled, ..broken(action) }
}

/// An undo action that has not been started.
pub(crate) fn standby(action: &str, undone: &str) -> ConformanceAction {
    ConformanceAction {
        status: ActionStatus::Standby,
        undoes: Some(name(undone)),
        ..waiting(action, &[undone])
    }
}

impl ConformanceAction {
    /// With a lease policy of its own.
    pub(crate) fn on(self, terms: LeasePolicy) -> Self {
        Self { terms, ..self }
    }

    /// Without relations to the others of its transition.
    pub(crate) fn independent(self) -> Self {
        Self { company: ActionRelation::Independent, ..self }
    }

    fn at(&self, execution: &ExecutionKey, seq: Seq, event: EventId, ordinal: i32) -> NewAction {
        let mut action = NewAction {
            key: ActionKey { execution: execution.clone(), seq, action: self.name.clone() },
            event_id: event,
            traceparent: None,
            ordinal,
            needs: self.needs.clone(),
            status: self.status,
            input: None,
            scope: None,
            result: None,
            error: None,
            handling: self.handling,
            terms: self.terms.clone(),
            undoes: self.undoes.clone(),
            incident: None,
            company: self.company,
        };
        match self.status {
            ActionStatus::Waiting | ActionStatus::Standby => {
                action.scope = Some(raw(r#"{"context":{"n":1.50}}"#))
            }
            ActionStatus::Ready => action.input = Some(raw(r#"{"noop":  1.50}"#)),
            ActionStatus::Succeeded => action.result = Some(raw(r#""inline""#)),
            ActionStatus::Failed => action.error = Some(raw(r#"{"class":"input"}"#)),
            ActionStatus::Leased
            | ActionStatus::Awaiting
            | ActionStatus::Skipped
            | ActionStatus::Cancelled => {}
        }
        action
    }
}

/// What a successful commit returned.
#[derive(Debug)]
pub(crate) struct ConformanceCommit {
    pub(crate) leased: Vec<LeasedAction>,
    pub(crate) unleased: usize,
    pub(crate) emitted: Vec<millstream_model::id::AcceptNo>,
}

pub(crate) fn done(committed: CommitVerdict) -> ConformanceCommit {
    match committed {
        CommitVerdict::Done { leased, unleased, emitted } => ConformanceCommit { leased, unleased, emitted },
        other @ (CommitVerdict::Conflict | CommitVerdict::Missing) => panic!("not committed: {other:?}"),
    }
}

impl ConformanceBench {
    /// Commit visits as the worker `w1`.
    pub(crate) async fn commit(
        &self,
        visits: Vec<ConformanceVisit>,
        lease: LeaseGrant,
    ) -> Vec<CommitVerdict> {
        let batch = self.placed(visits.into_iter().map(ConformanceVisit::commit).collect()).await;
        let now = self.now().await;
        let verdicts =
            self.stores.executions.commit_executions(&worker("w1"), &batch, &lease, now).await.unwrap();
        assert_eq!(verdicts.len(), batch.len(), "one verdict per execution");
        verdicts
    }

    /// Fills in the stored mailbox positions of the commits' events, as a worker that loaded them would know
    /// them.
    pub(crate) async fn placed(&self, mut batch: Vec<ExecutionCommit>) -> Vec<ExecutionCommit> {
        for commit in &mut batch {
            let id = |decided: &DecidedEvent| (commit.execution.tenant.clone(), decided.event_id);
            let ids: Vec<_> = commit.decided.iter().map(id).collect();
            let views = self.stores.event_views.find_events(&ids).await.unwrap();
            for (decided, view) in commit.decided.iter_mut().zip(views) {
                decided.accept_no = view.map_or(AcceptNo(0), |view| view.accept_no);
            }
        }
        batch
    }

    pub(crate) async fn commit_one(&self, visit: ConformanceVisit) -> CommitVerdict {
        self.commit(vec![visit], grant(0)).await.remove(0)
    }

    /// Commit a visit that must succeed, and return the state after it.
    pub(crate) async fn commit_done(&self, visit: ConformanceVisit) -> ExecutionState {
        let state = visit.commit.state.clone();
        done(self.commit_one(visit).await);
        state
    }

    /// Start an execution, post `go` and apply it with these actions, leasing up to `slots` of them.
    pub(crate) async fn acting(
        &self,
        key: &ExecutionKey,
        actions: &[ConformanceAction],
        lease: LeaseGrant,
    ) -> (EventId, ExecutionState, ConformanceCommit) {
        let state = self.start(key).await;
        let event = self.post(key, "go").await;
        let visit = ConformanceVisit::to(key, &state, self.now().await).act(event, "working", actions);
        let state = visit.commit.state.clone();
        (event, state, done(self.commit(vec![visit], lease).await.remove(0)))
    }
}
