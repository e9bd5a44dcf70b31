//! Requests to executors.

use millstream_model::id::ExecutionId;
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_rpc::proto;
use millstream_rpc::write::{self, AttemptCall, REQUEST_BYTES};
use millstream_store::graph_store::{DispatchContext, UpstreamResult};
use millstream_workflow::graph::{NodeId, NodeSpec, NodeStatus, NodeToken};
use prost::Message as _;

fn id(text: &str) -> NodeId {
    NodeId::parse(text).unwrap()
}

fn attempt() -> AttemptCall {
    AttemptCall {
        workflow: ExecutionId::parse("w").unwrap(),
        node: id("n"),
        attempt: 2,
        token: NodeToken::from_executor(7),
        idempotency_key: "default/w/4/n".into(),
        input: RawJson::parse(r#"{"a":1.0}"#).unwrap(),
        deadline: Timestamp::from_millis(1_500),
    }
}

fn spec() -> RawJson {
    let spec: NodeSpec = serde_json::from_str(
        r#"{"id": "n", "parents": ["a", {"node": "b", "if": "results.b.ok"}],
            "task": {"goal": "g", "dependencies": {"plan": "a"}}}"#,
    )
    .unwrap();
    RawJson::from_value(&spec)
}

fn upstream(node: &str, result: Option<String>, bytes: usize) -> UpstreamResult {
    let result = result.map(RawJson::from_trusted_text);
    UpstreamResult {
        node: id(node),
        status: NodeStatus::Pass,
        instance_of: None,
        result,
        result_bytes: bytes,
    }
}

fn context(upstream: Vec<UpstreamResult>) -> DispatchContext {
    DispatchContext {
        spec: spec(),
        instance: Some((id("many"), RawJson::from_trusted_text("\"item\""))),
        upstream,
        downstream: vec![(id("c"), "go on".into())],
    }
}

#[test]
fn execute_request_is_complete() {
    let above =
        vec![upstream("a", Some("[1]".into()), 3), upstream("b", None, 5_000_000), upstream("c", None, 0)];
    let request = write::execute_request(&attempt(), &context(above)).unwrap();
    assert_eq!((request.workflow_id.as_str(), request.node_id.as_str()), ("w", "n"));
    assert_eq!((request.attempt, request.token), (2, 7));
    assert_eq!(request.idempotency_key, "default/w/4/n");
    assert_eq!(request.input_json, r#"{"a":1.0}"#);
    assert_eq!(request.deadline, Some(prost_types::Timestamp { seconds: 1, nanos: 500_000_000 }));
    let node = request.node.unwrap();
    assert_eq!((node.status(), node.attempt), (proto::NodeStatus::Running, 2));
    assert_eq!((node.instance_of.as_str(), node.item_json.as_str()), ("many", "\"item\""));
    assert_eq!(node.parents.len(), 2);
    let results: Vec<_> =
        request.upstream_nodes.iter().map(|node| node.assigned_task.clone().unwrap()).collect();
    assert_eq!(results[0].results_json, "[1]");
    let reference = proto::ResultRef { workflow_id: "w".into(), node_id: "b".into(), size_bytes: 5_000_000 };
    assert_eq!((results[1].results_json.as_str(), &results[1].results_ref), ("", &Some(reference)));
    assert_eq!(results[2], proto::Task::default());
    assert!(request.upstream_nodes.iter().all(|node| node.parents.is_empty() && node.children.is_empty()));
    assert_eq!(request.downstream_nodes[0].assigned_task.as_ref().unwrap().goal, "go on");
}

#[test]
fn execute_request_stays_within_limit() {
    let megabyte = || Some(format!("\"{}\"", "x".repeat(1 << 20)));
    let bytes = (1 << 20) + 2;
    let above: Vec<_> = ["a", "b", "c", "d"].map(|node| upstream(node, megabyte(), bytes)).into();
    let mut above = above;
    above.push(upstream("e", Some("1".into()), 1));
    let request = write::execute_request(&attempt(), &context(above)).unwrap();
    assert!(request.encoded_len() <= REQUEST_BYTES);
    let whole: Vec<_> =
        request.upstream_nodes.iter().map(|node| node.assigned_task.clone().unwrap()).collect();
    let kept: Vec<bool> = whole.iter().map(|task| !task.results_json.is_empty()).collect();
    assert_eq!(kept, [true, true, true, false, true], "the last large one goes by reference");
    assert_eq!(whole[3].results_ref.as_ref().unwrap().size_bytes, bytes as u64);
}

#[test]
fn corrupt_stored_node_is_reported() {
    let broken = DispatchContext { spec: RawJson::from_trusted_text("{}"), ..context(Vec::new()) };
    let error = write::execute_request(&attempt(), &broken).unwrap_err();
    assert!(error.to_string().starts_with("the stored node cannot be read: missing field"), "{error}");
}
