//! Random graphs.

use std::sync::Arc;
use std::time::Duration;

use millstream_model::id::Name;
use millstream_model::raw::RawJson;
use millstream_workflow::graph::{
    FanOut, FanOutInstances, Graph, GraphEdge, GraphOptions, GraphParts, GraphSpec, NodeAgent, NodeEdit,
    NodeId, NodeOnFailure, NodeOptions, NodeParts, NodeRetry, NodeSpec, NodeStatus, NodeTask, SubExecution,
};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

pub(crate) fn node_id(number: usize) -> NodeId {
    Name::parse(format!("n-{number:04}")).unwrap()
}

fn name() -> impl Strategy<Value = Name> {
    "[a-z][a-z0-9_.-]{0,6}".prop_map(|text| Name::parse(text).unwrap())
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "\\PC{1,12}", Just("a\0\n\"é".to_owned())]
}

/// JSON whose spelling must be preserved.
pub(crate) fn json() -> impl Strategy<Value = RawJson> {
    let texts = [
        "null",
        "0",
        "9007199254740993",
        "-9223372036854775808",
        "18446744073709551615",
        "1.50",
        "1e400",
        "\"\"",
        "\"\\u0000 é\"",
        "[]",
        r#"{"b":1,  "a":[1.0]}"#,
        r#"{"a":1,"a":2}"#,
    ];
    select(texts.to_vec()).prop_map(|text| RawJson::parse(text).unwrap())
}

fn length() -> impl Strategy<Value = Duration> {
    (1u64..100_000_000_000).prop_map(Duration::from_millis)
}

fn status() -> impl Strategy<Value = NodeStatus> {
    select(NodeStatus::ALL)
}

fn retry() -> impl Strategy<Value = NodeRetry> {
    (any::<u32>(), length(), length(), btree_set(status(), 0..4))
        .prop_map(|(attempts, backoff, max, on)| NodeRetry { attempts, backoff, max, on })
}

fn node_options() -> impl Strategy<Value = NodeOptions> {
    (option::of(length()), option::of(retry())).prop_map(|(timeout, retry)| NodeOptions { timeout, retry })
}

fn options() -> impl Strategy<Value = GraphOptions> {
    (option::of(length()), option::of(any::<u32>()), node_options())
        .prop_map(|(timeout, max_parallel, node)| GraphOptions { timeout, max_parallel, node })
}

fn agent() -> impl Strategy<Value = NodeAgent> {
    (text(), text(), text(), btree_set(name(), 0..3)).prop_map(|(kind, model, role, labels)| NodeAgent {
        kind,
        model,
        role,
        labels,
    })
}

fn task() -> impl Strategy<Value = NodeTask> {
    (text(), btree_map(text(), name(), 0..3), vec(text(), 0..3))
        .prop_map(|(goal, dependencies, subtasks)| NodeTask { goal, dependencies, subtasks })
}

fn sub_execution() -> impl Strategy<Value = SubExecution> {
    (name(), option::of(any::<i32>()), json()).prop_map(|(definition, version, input)| SubExecution {
        definition,
        version,
        input,
    })
}

/// Any spec that can be written, valid or not. Parents are numbers below `parents_of`.
fn spec_within(
    id: NodeId,
    parents_of: usize,
    graph: BoxedStrategy<Option<Arc<GraphSpec>>>,
) -> impl Strategy<Value = NodeSpec> {
    let edge = (0..parents_of.max(1), option::of(text()))
        .prop_map(|(from, condition)| GraphEdge { from: node_id(from), condition });
    let edges = vec(edge, 0..if parents_of == 0 { 1 } else { 4 });
    let first = (edges, agent(), task(), node_options(), any::<bool>(), any::<bool>());
    let second = (option::of(text()), graph, option::of(sub_execution()));
    (first, second).prop_map(move |(first, (over, graph, execution))| {
        let (parents, agent, task, options, skip, is_final) = first;
        NodeSpec {
            id: id.clone(),
            parents,
            agent,
            task,
            options,
            on_failure: if skip { NodeOnFailure::Skip } else { NodeOnFailure::Continue },
            is_final,
            fan_out: over.map(|over| FanOut { over }),
            graph,
            execution,
        }
    })
}

fn plain(id: NodeId, parents_of: usize) -> impl Strategy<Value = NodeSpec> {
    spec_within(id, parents_of, Just(None).boxed())
}

pub(crate) fn graph_spec() -> impl Strategy<Value = GraphSpec> {
    let nodes =
        (0usize..4).prop_flat_map(|count| (0..count).map(|at| plain(node_id(at), at)).collect::<Vec<_>>());
    (text(), text(), json(), options(), nodes).prop_map(|(name, description, input, options, nodes)| {
        GraphSpec { name, description, input, options, nodes }
    })
}

pub(crate) fn spec(number: usize) -> impl Strategy<Value = NodeSpec> {
    let inner = option::weighted(0.2, graph_spec().prop_map(Arc::new)).boxed();
    spec_within(node_id(number), number, inner)
}

pub(crate) fn edit() -> impl Strategy<Value = NodeEdit> {
    let node = || (0usize..5).prop_flat_map(spec).prop_map(Arc::new);
    prop_oneof![
        node().prop_map(NodeEdit::Insert),
        node().prop_map(NodeEdit::Update),
        name().prop_map(NodeEdit::Delete),
    ]
}

fn instances() -> impl Strategy<Value = FanOutInstances> {
    (any::<u32>(), any::<u32>(), any::<u32>()).prop_map(|(all, open, failed)| FanOutInstances {
        all,
        open,
        failed,
    })
}

fn node(number: usize) -> impl Strategy<Value = NodeParts> {
    let state = (status(), any::<u32>(), option::of(text()), option::of(json()), vec(text(), 0..3));
    let instance = option::of((name(), json()));
    (spec(number), state, instance, option::of(instances())).prop_map(|(spec, state, of, instances)| {
        let (status, attempt, why, kept, avoid) = state;
        NodeParts { spec: Arc::new(spec), status, attempt, why, kept, avoid, of, instances }
    })
}

/// A graph whose derived parts are built by `workflow`.
pub(crate) fn graph() -> impl Strategy<Value = Graph> {
    let nodes = (0usize..8).prop_flat_map(|count| (0..count).map(node).collect::<Vec<_>>());
    let head = (text(), text(), option::of(text()), json(), options(), any::<u32>());
    (head, nodes).prop_map(|(head, nodes)| {
        let (name, description, creator, input, options, revision) = head;
        Graph::from_parts(GraphParts { name, description, creator, input, options, revision, nodes })
    })
}
