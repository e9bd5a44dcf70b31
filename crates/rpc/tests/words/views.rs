//! Workflows, nodes and executors as the API returns them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use millstream_model::id::{AcceptNo, DefinitionRef, ExecutionId, ExecutionKey, Name, Seq, TenantId};
use millstream_model::network_policy::NetworkPolicy;
use millstream_model::raw::RawJson;
use millstream_model::status::{ExecutionPhase, ExecutionStatus};
use millstream_model::time::Timestamp;
use millstream_rpc::write::NodeResultForm;
use millstream_rpc::{blob, proto, read, write};
use millstream_store::graph_store::{GraphView, LogView, NodeView};
use millstream_store::views::ExecutionView;
use millstream_workflow::graph::{Graph, GraphOptions, GraphParts, NodeId, NodeStatus};
use millstream_workflow::log::ExecutionState;

fn workflow() -> ExecutionId {
    ExecutionId::parse("w").unwrap()
}

fn node_view() -> NodeView {
    let id = |text| NodeId::parse(text).unwrap();
    NodeView {
        node: id("n"),
        status: NodeStatus::Fail,
        attempt: 2,
        seq: Seq(9),
        why: Some("because".into()),
        spec: RawJson::from_trusted_text(r#"{"id": "n", "parents": ["a"], "is_final": true}"#),
        children: vec![id("c"), id("d")],
        instance: Some((id("many"), RawJson::from_trusted_text("4"))),
        result: Some(RawJson::from_trusted_text("[1.50]")),
        error: Some("no".into()),
        executor: Some("e".into()),
        executor_reason: Some("alone".into()),
        started_at: Some(Timestamp::from_millis(1_000)),
        dispatched_at: Some(Timestamp::from_millis(2_000)),
        ended_at: None,
    }
}

#[test]
fn node_view_has_its_state() {
    let node = write::node_view(&node_view(), &workflow(), NodeResultForm::Whole).unwrap();
    let at = |seconds| Some(prost_types::Timestamp { seconds, nanos: 0 });
    let expected = proto::Node {
        id: "n".into(),
        parents: vec![proto::Parent { node: "a".into(), condition: None }],
        children: vec!["c".into(), "d".into()],
        assigned_task: Some(proto::Task { results_json: "[1.50]".into(), ..Default::default() }),
        status: proto::NodeStatus::Fail.into(),
        is_final: true,
        attempt: 2,
        why: "because".into(),
        error: "no".into(),
        executor: "e".into(),
        executor_reason: "alone".into(),
        started_at: at(1),
        dispatched_at: at(2),
        instance_of: "many".into(),
        item_json: "4".into(),
        ..Default::default()
    };
    assert_eq!(node, expected);
}

#[test]
fn node_lists_carry_result_sizes() {
    let node = write::node_view(&node_view(), &workflow(), NodeResultForm::Sizes).unwrap();
    let task = node.assigned_task.unwrap();
    let reference = proto::ResultRef { workflow_id: "w".into(), node_id: "n".into(), size_bytes: 6 };
    assert_eq!((task.results_json.as_str(), task.results_ref), ("", Some(reference)));
}

#[test]
fn workflow_view_counts_nodes() {
    let graph = Graph::from_parts(GraphParts {
        name: "stored twice".into(),
        description: String::new(),
        creator: None,
        input: RawJson::from_trusted_text(r#"{"a": 1}"#),
        options: GraphOptions { max_parallel: Some(3), ..GraphOptions::default() },
        revision: 1,
        nodes: Vec::new(),
    });
    let key = ExecutionKey { tenant: TenantId::default_tenant(), execution: workflow() };
    let view = GraphView {
        execution: key.clone(),
        metadata: RawJson::from_trusted_text(r#"{"name": "a name", "creator": "ci", "description": ""}"#),
        revision: 4,
        blob: Arc::from(blob::encode(&graph)),
        snapshot_seq: Seq(1),
        nodes: BTreeMap::from([(NodeStatus::Pass, 2), (NodeStatus::Fail, 0)]),
    };
    let shown = write::workflow_view(&view, &execution(key), Vec::new()).unwrap();
    let metadata = shown.metadata.clone().unwrap();
    assert_eq!((metadata.name.as_str(), metadata.creator.as_str()), ("a name", "ci"));
    assert_eq!((shown.status(), shown.revision), (proto::WorkflowStatus::Paused, 4));
    assert_eq!(shown.node_counts, [proto::NodeCount { status: 3, count: 2 }]);
    assert_eq!((shown.input_json.as_str(), shown.paused_reason.as_str()), (r#"{"a": 1}"#, "look"));
    assert_eq!(shown.options.unwrap().max_parallel, Some(3));
    assert_eq!(shown.created_at.unwrap().seconds, 5);
}

fn execution(execution: ExecutionKey) -> ExecutionView {
    let definition = DefinitionRef { name: Name::graph(), version: 1 };
    ExecutionView {
        execution,
        position: AcceptNo(1),
        definition,
        status: ExecutionStatus::Paused,
        state: ExecutionState {
            format: 1,
            seq: Seq(1),
            state: Name::parse("running").unwrap(),
            entered_seq: Seq(1),
            phase: ExecutionPhase::Active,
            reason: None,
            context: Default::default(),
            at: Timestamp::EPOCH,
            parent: None,
            correlation: None,
            graph: None,
        },
        paused_reason: Some("look".into()),
        unreadable: None,
        created_at: Timestamp::from_millis(5_000),
        updated_at: Timestamp::from_millis(6_000),
    }
}

#[test]
fn executor_round_trips_after_registration() {
    let given = proto::Executor {
        name: "gpu-7".into(),
        address: "http://executor.example:7000".into(),
        roles: vec!["coder".into(), "planner".into()],
        labels: vec!["gpu".into()],
        capacity: 4,
        load: 1,
        seen_at: None,
    };
    let executor =
        read::read_executor(given.clone(), &TenantId::default_tenant(), &NetworkPolicy::default()).unwrap();
    assert_eq!(executor.labels, BTreeSet::from([Name::parse("gpu").unwrap()]));
    let shown = write::encode_executor(&executor, Timestamp::from_millis(3_000));
    assert_eq!(proto::Executor { seen_at: None, ..shown }, given);
}

#[test]
fn invalid_executor_is_not_registered() {
    let given =
        proto::Executor { roles: vec![String::new()], labels: vec!["A".into()], ..Default::default() };
    let problems =
        read::read_executor(given, &TenantId::default_tenant(), &NetworkPolicy::default()).unwrap_err();
    let places: Vec<&str> = problems.0.iter().map(|problem| problem.path.as_str()).collect();
    assert_eq!(
        places,
        ["executor.name", "executor.address", "executor.capacity", "executor.roles[0]", "executor.labels[0]"]
    );
}

#[test]
fn log_entry_is_encoded_unchanged() {
    let view = LogView { position: 3, attempt: 1, text: "t".into(), truncated: true, at: Timestamp::EPOCH };
    let shown = write::log_entry(&view);
    assert_eq!((shown.position, shown.attempt, shown.text.as_str(), shown.truncated), (3, 1, "t", true));
}
