//! Graphs over a stub: the requests, and the interpretation of the answers.

use std::time::Duration;

use millstream_sdk::client::{
    Client, ClientRetry, GraphEditAnswer, GraphNodeEdit, GraphNotice, GraphStatus, NewExecutor, NodeResult,
    NodeStatus,
};
use millstream_sdk::graph::{NewGraph, NewNode, NodeSpec};
use serde_json::Value;

use crate::stub::StubServer;
use crate::world::persistent;

const RUNNING: &str = r#"{"graph_id":"g","name":"n","description":"","status":"RUNNING","revision":1,"options":{},"nodes":{"RUNNING":1},
    "created_at":"2026-01-01T00:00:00.000Z","updated_at":"2026-01-01T00:00:00.000Z"}"#;
const PASSED: &str = r#"{"graph_id":"g","name":"n","description":"","status":"PASSED","revision":1,"options":{},"nodes":{"PASS":1},
    "created_at":"2026-01-01T00:00:00.000Z","updated_at":"2026-01-01T00:00:01.000Z","ended_at":"2026-01-01T00:00:01.000Z"}"#;
const NODE: &str = r#"{"node":"find.0","status":"RUNNING","attempt":1,"children":[],"spec":{"id":"find.0"}}"#;
const BEGUN: &str = "event: node.scheduled\nid: 7\ndata: {\"graph_id\":\"g\",\"at\":\"2026-01-01T00:00:00.000Z\",\"seq\":1,\"type\":\"node.scheduled\",\"node\":\"a\",\"attempt\":1}\n\n";
const DONE: &str = "event: node.completed\nid: 9\ndata: {\"graph_id\":\"g\",\"at\":\"2026-01-01T00:00:00.000Z\",\"seq\":1,\"type\":\"node.completed\",\"node\":\"a\",\"status\":\"PASS\",\"attempt\":1}\n\n\
    event: workflow.completed\nid: 9.1\ndata: {\"graph_id\":\"g\",\"at\":\"2026-01-01T00:00:00.000Z\",\"seq\":1,\"type\":\"workflow.completed\"}\n\n";

fn one() -> NewGraph {
    NewGraph::named("n").node(NewNode::of("a"))
}

#[tokio::test]
async fn repeated_creation_keeps_random_graph_id() {
    let stub = StubServer::answering(&[(503, "{}"), (201, RUNNING)]).await;
    let graph = persistent(stub.address).create_graph(one()).await.unwrap();
    assert_eq!((graph.status, graph.nodes[&NodeStatus::Running]), (GraphStatus::Running, 1));
    let asked = stub.asked();
    assert_eq!(asked[0].path, "/v1/graphs");
    assert!(asked[0].body.contains("graph_id"), "{}", asked[0].body);
    assert_eq!(asked[0].body, asked[1].body);
}

#[tokio::test]
async fn keyed_creation_lets_server_choose_id() {
    let stub = StubServer::answering(&[(201, RUNNING)]).await;
    persistent(stub.address).create_graph(one()).key("k").await.unwrap();
    let asked = stub.asked();
    assert_eq!(asked[0].header("idempotency-key"), "k");
    assert!(!asked[0].body.contains("graph_id"), "{}", asked[0].body);
}

#[tokio::test]
async fn invalid_graph_is_not_sent() {
    let stub = StubServer::answering(&[]).await;
    let wrong = one().node(NewNode::of("B"));
    assert!(persistent(stub.address).create_graph(wrong).await.is_err());
    assert!(stub.asked().is_empty());
}

#[tokio::test]
async fn graph_patch_is_repeated_with_its_key() {
    let accepted = r#"{"graph_id":"g","event_id":"e"}"#;
    let stub =
        StubServer::answering(&[(503, "{}"), (202, accepted), (200, r#"{"graph_id":"g","revision":4}"#)])
            .await;
    let edited = persistent(stub.address).edit_graph("g", 3).delete("a").await.unwrap();
    assert_eq!(edited.revision, 4);
    let asked = stub.asked();
    assert_eq!(asked[0].path, "/v1/graphs/g/edits");
    assert!(!asked[0].header("idempotency-key").is_empty());
    let keys: Vec<_> = asked.iter().map(|ask| ask.header("idempotency-key")).collect();
    assert_eq!((keys.len(), keys[1], keys[2]), (3, keys[0], keys[0]));
    let stub = StubServer::answering(&[(409, "{}")]).await;
    let error = persistent(stub.address).edit_graph("g", 3).delete("a").await.unwrap_err();
    assert!(error.is_conflict(), "{error}");
}

#[tokio::test]
async fn nodes_are_listed_by_page() {
    let first = r#"{"items":[{"node":"a","status":"PASS","attempt":1,"children":["b"],"spec":{"id":"a"}}],"next_cursor":"x"}"#;
    let second = r#"{"items":[{"node":"b","status":"SKIPPED","attempt":0,"why":"parent a is FAIL","children":[],"spec":{"id":"b"}}]}"#;
    let stub = StubServer::answering(&[(200, first), (200, second)]).await;
    let nodes = persistent(stub.address).nodes("g").page_size(1).await.unwrap();
    let ids: Vec<_> = nodes.iter().map(|node| (node.node.as_str(), node.status)).collect();
    assert_eq!(ids, [("a", NodeStatus::Pass), ("b", NodeStatus::Skipped)]);
    assert_eq!(stub.asked()[1].path, "/v1/graphs/g/nodes");
}

#[tokio::test]
async fn unanswered_node_result_is_sent_again() {
    let stub = StubServer::answering(&[(503, "{}"), (200, NODE)]).await;
    persistent(stub.address).node_result("g", "find.0", &NodeResult::pass(5, "yes")).await.unwrap();
    let asked = stub.asked();
    assert_eq!((asked.len(), asked[1].path.as_str()), (2, "/v1/graphs/g/nodes/find.0/result"));
}

#[tokio::test]
async fn one_node_has_result_and_edits() {
    let found = r#"{"node":"a","status":"PASS","attempt":1,"children":[],"result_bytes":5,
        "spec":{"id":"a","parents":[{"node":"b","if":"input.x"}],"execution":{"definition":"d","input":{"n":1}}},
        "result":[1,2],"edits":[{"delete":"b"}],"progress":null}"#;
    let stub = StubServer::answering(&[(200, found)]).await;
    let node = persistent(stub.address).node("g", "a").await.unwrap();
    assert_eq!((node.view.status, node.result_as::<Vec<u8>>().unwrap()), (NodeStatus::Pass, vec![1, 2]));
    assert_eq!(node.edits, [GraphNodeEdit::Delete("b".to_owned())]);
    let spec = node.view.spec_as::<NodeSpec>().unwrap();
    assert_eq!(spec.parents[0].condition.as_deref(), Some("input.x"));
    assert_eq!(spec.execution.unwrap().input.as_str(), r#"{"n":1}"#);
}

#[tokio::test]
async fn graph_watch_resumes_and_ends() {
    let stub = StubServer::answering(&[(200, BEGUN), (503, "{}"), (200, DONE)]).await;
    let mut watch = persistent(stub.address).watch_graph("g");
    let mut seen = Vec::new();
    while let Some(event) = watch.next().await {
        let event = event.unwrap();
        seen.push((event.position, event.what));
    }
    let positions: Vec<_> = seen.iter().map(|(position, _)| position.as_str()).collect();
    assert_eq!(positions, ["7", "9", "9.1"]);
    assert_eq!(seen[2].1, GraphNotice::Completed);
    let asked: Vec<_> = stub.asked().iter().map(|ask| ask.header("last-event-id").to_owned()).collect();
    assert_eq!(asked, ["", "7", "7"]);
}

#[tokio::test]
async fn client_waits_for_graph_end() {
    let stub = StubServer::answering(&[(200, RUNNING), (200, DONE), (200, PASSED)]).await;
    let ended = persistent(stub.address).wait_for_graph("g", Duration::from_secs(20)).await.unwrap();
    assert_eq!(ended.status, GraphStatus::Passed);
    let paths: Vec<_> = stub.asked().into_iter().map(|ask| ask.path).collect();
    assert_eq!(paths, ["/v1/graphs/g", "/v1/graphs/g/watch", "/v1/graphs/g"]);
}

#[tokio::test]
async fn executor_is_registered_and_retired() {
    let stub = StubServer::answering(&[(200, r#"{"name":"e","beat_every":"5s"}"#), (204, "")]).await;
    let client = persistent(stub.address);
    let executor = NewExecutor::at("e", "http://127.0.0.1:7000").capacity(4);
    assert_eq!(client.register_executor(&executor).await.unwrap().beat_every, Duration::from_secs(5));
    client.retire_executor("e").await.unwrap();
    let asked = stub.asked();
    let said: Value = serde_json::from_str(&asked[0].body).unwrap();
    assert_eq!((&said["name"], &said["capacity"]), (&Value::from("e"), &Value::from(4)));
    assert_eq!(asked[1].path, "/v1/executors/e/retire");
}

#[tokio::test]
async fn reconnected_watch_has_its_own_retries() {
    let quick = ClientRetry { attempts: 5, backoff: Duration::from_millis(1), max: Duration::from_millis(1) };
    let impatient = |stub: &StubServer| {
        let builder = Client::builder(format!("http://{}", stub.address)).retry(ClientRetry::never());
        builder.reconnect(quick).user_agent("hare/1").build().unwrap()
    };
    let stub = StubServer::answering(&[(200, BEGUN), (503, "{}"), (200, DONE)]).await;
    let mut watch = impatient(&stub).watch_graph("g");
    let mut positions = Vec::new();
    while let Some(message) = watch.next_message().await {
        let message = message.unwrap();
        assert!(message.data.starts_with(r#"{"graph_id":"g","#), "{}", message.data);
        positions.push(message.event.position);
    }
    assert_eq!(positions, ["7", "9", "9.1"]);
    assert_eq!(stub.asked()[0].header("user-agent"), "hare/1");
    let stub = StubServer::answering(&[(503, "{}"), (200, DONE)]).await;
    let error = impatient(&stub).watch_graph("g").next().await.unwrap().unwrap_err();
    assert_eq!(error.problem().map(|problem| problem.status), Some(503));
    assert_eq!(stub.asked().len(), 1, "the first connection is a call");
}

#[tokio::test]
async fn undecided_patch_is_returned_without_waiting() {
    let stub = StubServer::answering(&[
        (202, r#"{"graph_id":"g","event_id":"e-1"}"#),
        (200, r#"{"graph_id":"g","revision":4}"#),
    ])
    .await;
    let editing = || persistent(stub.address).edit_graph("g", 3).delete("d");
    match editing().without_waiting().await.unwrap() {
        GraphEditAnswer::Accepted(accepted) => assert_eq!(accepted.event_id, "e-1"),
        GraphEditAnswer::Applied(applied) => panic!("{applied:?}"),
    }
    match editing().without_waiting().await.unwrap() {
        GraphEditAnswer::Applied(applied) => assert_eq!(applied.revision, 4),
        GraphEditAnswer::Accepted(accepted) => panic!("{accepted:?}"),
    }
}
