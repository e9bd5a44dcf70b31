//! The fixture: a graph written as YAML, driven event by event, printed as text.

use std::sync::Arc;

use millstream_model::id::{AcceptNo, EventId, Name, Seq};
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;

use crate::graph::{
    ExecutorAnswer, Graph, GraphChange, GraphEdit, GraphSpec, InvalidGraph, NodeEdit, NodeId, NodeInput,
    NodeSpec, NodeStatus,
};
use crate::graph_machine::{create_graph, step_graph};
use crate::log::{
    ActionPlan, AppliedEvent, ArmedTimer, EventOrigin, EventOutcome, ExecutionState, MailboxEvent,
    MailboxState,
};
use crate::machine::{ActionInput, evolve};

pub(super) fn name(word: &str) -> NodeId {
    Name::parse(word).unwrap()
}

pub(super) fn json(text: &str) -> RawJson {
    RawJson::parse(text).unwrap()
}

/// YAML for readability; raw JSON within needs the JSON reader.
fn read<T: serde::de::DeserializeOwned>(source: &str) -> T {
    let value: serde_json::Value = serde_saphyr::from_str(source).unwrap();
    serde_json::from_str(&value.to_string()).unwrap()
}

pub(super) fn spec(source: &str) -> GraphSpec {
    read(source)
}

pub(super) fn node(source: &str) -> Arc<NodeSpec> {
    Arc::new(read(source))
}

pub(super) fn problems(source: &str) -> Vec<String> {
    match create_graph(spec(source), None, EventId(uuid::Uuid::nil()), None, Timestamp::EPOCH) {
        Ok(_) => Vec::new(),
        Err(InvalidGraph::TooLarge(problem)) => vec![format!("too large: {problem}")],
        Err(InvalidGraph::Problems(problems)) => problems.0.iter().map(ToString::to_string).collect(),
    }
}

pub(super) fn event(name: Name, payload: RawJson) -> MailboxEvent {
    MailboxEvent {
        event_id: EventId(uuid::Uuid::nil()),
        accept_no: AcceptNo(1),
        name,
        payload,
        accepted_at: Timestamp::EPOCH,
        origin: EventOrigin::Posted,
        kept: MailboxState::Undecided,
        attempts: 0,
        traceparent: None,
    }
}

pub(super) fn timeout() -> MailboxEvent {
    let origin = EventOrigin::Timer { armed_seq: ArmedTimer::EXECUTION_TIMEOUT };
    MailboxEvent { origin, ..event(Name::timeout_event(), RawJson::null()) }
}

pub(super) fn answer(status: NodeStatus, attempt: u32) -> ExecutorAnswer {
    ExecutorAnswer {
        status,
        attempt,
        result: None,
        error: None,
        edits: Vec::new(),
        known: Vec::new(),
        executor: None,
    }
}

/// The event that settling a dispatch emits.
pub(super) fn told(node: &str, answer: &ExecutorAnswer) -> MailboxEvent {
    let answer = RawJson::from_value(answer);
    event(Name::node_outcome(), json(&format!("{{\"action\":{node:?},\"attempts\":1,\"result\":{answer}}}")))
}

pub(super) struct GraphFixture {
    pub(super) state: ExecutionState,
    /// The last applied transition.
    pub(super) last: AppliedEvent,
    pub(super) now: Timestamp,
}

impl GraphFixture {
    /// A graph that was created and begun.
    pub(super) fn of(source: &str) -> Self {
        let mut bench = Self::created(source);
        bench.apply(&event(Name::begin(), RawJson::null()));
        bench
    }

    pub(super) fn created(source: &str) -> Self {
        let now = Timestamp::from_millis(1_000);
        let (last, state) = create_graph(spec(source), None, EventId(uuid::Uuid::nil()), None, now).unwrap();
        Self { state, last, now }
    }

    pub(super) fn graph(&self) -> &Graph {
        self.state.graph.as_deref().unwrap()
    }

    pub(super) fn apply(&mut self, event: &MailboxEvent) -> &mut Self {
        let outcome = step_graph(&self.state, event, self.now);
        let EventOutcome::Applied(applied) = outcome else { panic!("{outcome:?}") };
        self.state = evolve(Some(self.state.clone()), &applied.transition);
        self.last = *applied;
        assert_eq!(
            self.graph(),
            &Graph::from_parts(self.graph().to_parts()),
            "the derived fields have drifted"
        );
        self
    }

    pub(super) fn rejected(&self, event: &MailboxEvent) -> String {
        let outcome = step_graph(&self.state, event, self.now);
        let EventOutcome::Rejected { reason } = outcome else { panic!("{outcome:?}") };
        reason
    }

    /// Ends the node's current attempt with this status.
    pub(super) fn ends(&mut self, node: &str, status: NodeStatus) -> &mut Self {
        let attempt = self.graph().nodes[node].attempt;
        self.apply(&told(node, &answer(status, attempt)))
    }

    pub(super) fn passes(&mut self, node: &str) -> &mut Self {
        self.ends(node, NodeStatus::Pass)
    }

    pub(super) fn gives(&mut self, node: &str, result: &str) -> &mut Self {
        let attempt = self.graph().nodes[node].attempt;
        let answer = ExecutorAnswer { result: Some(json(result)), ..answer(NodeStatus::Pass, attempt) };
        self.apply(&told(node, &answer))
    }

    pub(super) fn edit(&self, edits: Vec<NodeEdit>) -> MailboxEvent {
        let edit = GraphEdit { expected_revision: self.graph().revision, edits, known: Vec::new() };
        event(Name::edit(), RawJson::from_value(&edit))
    }

    pub(super) fn change(&self) -> &GraphChange {
        self.last.transition.decision.graph.as_deref().unwrap()
    }

    /// `a PASS, b RUNNING`, in the order of ids.
    pub(super) fn statuses(&self) -> String {
        let nodes = self.graph().nodes.iter();
        nodes.map(|(id, node)| format!("{id} {}", node.status)).collect::<Vec<_>>().join(", ")
    }

    pub(super) fn why(&self, node: &str) -> &str {
        self.graph().nodes[node].why.as_deref().unwrap_or_default()
    }

    /// The dispatches of the last transition.
    pub(super) fn dispatched(&self) -> Vec<NodeInput> {
        let inputs = self.last.actions.iter().filter_map(|action| {
            let ActionPlan::Ready { input } = &action.plan else { panic!("{action:?}") };
            let ActionInput::Node(input) = input.decode().unwrap() else { return None };
            assert_eq!(action.name, input.node);
            Some(input)
        });
        inputs.collect()
    }

    pub(super) fn dispatched_names(&self) -> String {
        self.dispatched().iter().map(|input| input.node.to_string()).collect::<Vec<_>>().join(" ")
    }

    /// The seq, the final state and its reason.
    pub(super) fn stands(&self) -> (Seq, String, Option<&str>) {
        (self.state.seq, self.state.state.to_string(), self.state.reason.as_deref())
    }
}
