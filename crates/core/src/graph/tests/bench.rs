//! The fixture: a graph written as YAML, driven event by event, printed as text.

use std::sync::Arc;

use crate::graph::{
    Answer, Change, Edit, Graph, GraphSpec, Invalid, NodeEdit, NodeId, NodeInput, NodeSpec, NodeStatus,
    create, step,
};
use crate::id::{AcceptNo, EventId, Name, Seq};
use crate::log::{Applied, ArmedTimer, Kept, Origin, Outcome, Plan, State, Waiting};
use crate::machine::{ActionInput, evolve};
use crate::raw::RawJson;
use crate::time::Timestamp;

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
    match create(spec(source), None, EventId(uuid::Uuid::nil()), None, Timestamp::EPOCH) {
        Ok(_) => Vec::new(),
        Err(Invalid::TooLarge(problem)) => vec![format!("too large: {problem}")],
        Err(Invalid::Problems(problems)) => problems.0.iter().map(ToString::to_string).collect(),
    }
}

pub(super) fn event(name: Name, payload: RawJson) -> Waiting {
    Waiting {
        event_id: EventId(uuid::Uuid::nil()),
        accept_no: AcceptNo(1),
        name,
        payload,
        accepted_at: Timestamp::EPOCH,
        origin: Origin::Posted,
        kept: Kept::Undecided,
        attempts: 0,
        traceparent: None,
    }
}

pub(super) fn timeout() -> Waiting {
    let origin = Origin::Timer { armed_seq: ArmedTimer::EXECUTION_TIMEOUT };
    Waiting { origin, ..event(Name::timeout(), RawJson::null()) }
}

pub(super) fn answer(status: NodeStatus, attempt: u32) -> Answer {
    Answer {
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
pub(super) fn told(node: &str, answer: &Answer) -> Waiting {
    let answer = RawJson::of(answer);
    event(Name::node_outcome(), json(&format!("{{\"action\":{node:?},\"attempts\":1,\"result\":{answer}}}")))
}

pub(super) struct Bench {
    pub(super) state: State,
    /// The last applied transition.
    pub(super) last: Applied,
    pub(super) now: Timestamp,
}

impl Bench {
    /// A graph that was created and begun.
    pub(super) fn of(source: &str) -> Self {
        let mut bench = Self::created(source);
        bench.apply(&event(Name::begin(), RawJson::null()));
        bench
    }

    pub(super) fn created(source: &str) -> Self {
        let now = Timestamp::from_millis(1_000);
        let (last, state) = create(spec(source), None, EventId(uuid::Uuid::nil()), None, now).unwrap();
        Self { state, last, now }
    }

    pub(super) fn graph(&self) -> &Graph {
        self.state.graph.as_deref().unwrap()
    }

    pub(super) fn apply(&mut self, event: &Waiting) -> &mut Self {
        let outcome = step(&self.state, event, self.now);
        let Outcome::Applied(applied) = outcome else { panic!("{outcome:?}") };
        self.state = evolve(Some(self.state.clone()), &applied.transition);
        self.last = *applied;
        assert_eq!(self.graph(), &Graph::assemble(self.graph().parts()), "the derived fields have drifted");
        self
    }

    pub(super) fn rejected(&self, event: &Waiting) -> String {
        let outcome = step(&self.state, event, self.now);
        let Outcome::Rejected { reason } = outcome else { panic!("{outcome:?}") };
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
        let answer = Answer { result: Some(json(result)), ..answer(NodeStatus::Pass, attempt) };
        self.apply(&told(node, &answer))
    }

    pub(super) fn edit(&self, edits: Vec<NodeEdit>) -> Waiting {
        let edit = Edit { expected_revision: self.graph().revision, edits, known: Vec::new() };
        event(Name::edit(), RawJson::of(&edit))
    }

    pub(super) fn change(&self) -> &Change {
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
            let Plan::Ready { input } = &action.plan else { panic!("{action:?}") };
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
