//! A graph with the invariants around it: its replay, its dispatches, its history.

use std::collections::BTreeSet;

use millstream_model::id::{AcceptNo, EventId, Name};
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_workflow::graph::{ExecutorAnswer, Graph, NodeEdit, NodeId, NodeOnFailure, NodeStatus};
use millstream_workflow::graph_machine::{redecide_graph, step_graph, transition_notices};
use millstream_workflow::log::{
    ActionPlan, AppliedEvent, EventOrigin, EventOutcome, ExecutionState, MailboxEvent, MailboxState,
    Transition, TransitionDecision,
};
use millstream_workflow::machine::{ActionInput, RecordedTransition, evolve};
use uuid::Uuid;

use super::scratch;

pub(crate) struct GraphWorld {
    pub(crate) state: ExecutionState,
    /// Folded from the serialised transitions.
    replayed: ExecutionState,
    history: Vec<RecordedTransition>,
    dispatched: BTreeSet<(NodeId, u32)>,
    cut: bool,
}

impl GraphWorld {
    pub(crate) fn created(applied: AppliedEvent, state: ExecutionState) -> Self {
        let replayed = evolve(None, &written(&applied.transition));
        assert_eq!(state, replayed);
        let recorded = RecordedTransition {
            transition: applied.transition,
            payload: RawJson::null(),
            accepted_at: Timestamp::EPOCH,
        };
        Self { state, replayed, history: vec![recorded], dispatched: BTreeSet::new(), cut: false }
    }

    pub(crate) fn graph(&self) -> &Graph {
        self.state.graph.as_deref().expect("it is a graph")
    }

    /// The attempts that an executor could answer now, in order of node id.
    pub(crate) fn running(&self) -> Vec<(NodeId, u32)> {
        let nodes = self.graph().nodes.iter();
        nodes
            .filter(|(_, node)| node.status == NodeStatus::Running && node.spec.fan_out.is_none())
            .map(|(id, node)| (id.clone(), node.attempt))
            .collect()
    }

    pub(crate) fn answer(
        &mut self,
        node: &NodeId,
        attempt: u32,
        status: NodeStatus,
        result: Option<&str>,
        edits: Vec<NodeEdit>,
    ) -> EventOutcome {
        let result = result.map(|text| RawJson::parse(text).unwrap());
        let executor = Some("x1".to_owned());
        let answer =
            ExecutorAnswer { status, attempt, result, error: None, edits, known: Vec::new(), executor };
        let payload =
            format!(r#"{{"action":"{node}","attempts":1,"result":{}}}"#, RawJson::from_value(&answer));
        self.event(Name::node_outcome(), RawJson::parse(&payload).unwrap())
    }

    pub(crate) fn event(&mut self, name: Name, payload: RawJson) -> EventOutcome {
        let now = self.state.at.plus(std::time::Duration::from_secs(1));
        let event = MailboxEvent {
            event_id: EventId(Uuid::nil()),
            accept_no: AcceptNo(1),
            name,
            payload,
            accepted_at: now,
            origin: EventOrigin::Posted,
            kept: MailboxState::Undecided,
            attempts: 0,
            traceparent: None,
        };
        let outcome = step_graph(&self.state, &event, now);
        assert_eq!(outcome, step_graph(&self.state, &event, now), "the same event is decided differently");
        if let EventOutcome::Applied(applied) = &outcome {
            self.cut |= event.name.is_end();
            self.apply(applied);
            let transition = applied.transition.clone();
            self.history.push(RecordedTransition { transition, payload: event.payload, accepted_at: now });
        }
        outcome
    }

    fn apply(&mut self, applied: &AppliedEvent) {
        let before = self.graph().revision;
        self.state = evolve(Some(self.state.clone()), &applied.transition);
        self.replayed = evolve(Some(self.replayed.clone()), &written(&applied.transition));
        assert_eq!(self.state, self.replayed, "replay gives another state");
        scratch::check(self.graph());
        let change = applied.transition.decision.graph.as_ref().expect("it changes a graph");
        let ids: BTreeSet<&NodeId> = change.nodes.iter().map(|node| &node.id).collect();
        assert_eq!(ids.len(), change.nodes.len(), "a node changes twice");
        let revisions = change.expanded.len() as u32 + u32::from(change.patch.is_some());
        assert_eq!(self.graph().revision, before + revisions);
        transition_notices(&applied.transition);
        self.check_dispatches(applied);
        self.check_nodes();
    }

    fn check_dispatches(&mut self, applied: &AppliedEvent) {
        for action in &applied.actions {
            let ActionPlan::Ready { input } = &action.plan else { panic!("{action:?}") };
            let ActionInput::Node(input) = input.decode().expect("an input") else { continue };
            let node = self.graph().nodes[&input.node].clone();
            assert_eq!((node.status, node.attempt), (NodeStatus::Running, input.attempt));
            for edge in &node.spec.parents {
                assert!(self.graph().nodes[&edge.from].status.is_ended(), "{} came too early", input.node);
            }
            assert!(self.dispatched.insert((input.node.clone(), input.attempt)), "{input:?} came twice");
            assert!(input.attempt == 1 || input.not_before > Some(applied.transition.at));
        }
        for (id, attempt) in self.running() {
            assert!(self.dispatched.contains(&(id.clone(), attempt)), "{id} runs without a dispatch");
        }
    }

    fn check_nodes(&self) {
        let graph = self.graph();
        let (open, busy) = (graph.tally.open_count(), self.running().len());
        assert_eq!(self.state.phase.is_ended(), open == 0, "open nodes in {:?}", self.state.phase);
        assert!(open == 0 || busy > 0, "stuck: open nodes and nothing runs");
        let room = graph.options.max_parallel.unwrap_or(1_000) as usize;
        assert!(busy <= room, "{busy} run, the limit is {room}");
        assert!(graph.ready.is_empty() || busy == room, "{:?} could run", graph.ready);
        for (id, node) in graph.nodes.iter().filter(|(_, node)| node.status != NodeStatus::Pending) {
            let failed = node.spec.parents.iter().any(|edge| {
                let status = graph.nodes[&edge.from].status;
                status.is_failure() || status == NodeStatus::Skipped
            });
            let skips = failed && node.spec.on_failure == NodeOnFailure::Skip;
            if !self.cut {
                assert_eq!(node.status == NodeStatus::Skipped, skips, "{id} is {}", node.status);
            }
        }
    }

    /// Re-decides the whole history at the end and compares the decisions.
    pub(crate) fn finish(&self) {
        assert_eq!(redecide_graph(&self.history), []);
    }
}

/// The transition after a round trip through its stored form.
fn written(transition: &Transition) -> Transition {
    let decision: TransitionDecision =
        RawJson::from_value(&transition.decision).decode().expect("it can be read back");
    assert_eq!(decision, transition.decision);
    Transition { decision, ..transition.clone() }
}
