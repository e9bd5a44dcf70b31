//! Real answers about graphs match the OpenAPI document.

use millstream_workflow::graph::NodeStatus;
use serde_json::json;

use crate::bench::{header, post};
use crate::create::{chain, with_chain};
use crate::engine::TOKEN;
use crate::schema::mismatches;

#[tokio::test]
async fn graph_answers_match_openapi() {
    let (bench, engine) = with_chain("g-1").await;
    let document = bench.get("/openapi.json").await.json();
    engine.dispatch("g-1", "a", "exec-1").await;
    let logs = json!({"token": TOKEN, "logs": "half\n"});
    let held = bench.post("/v1/graphs/g-1/nodes/a/progress", &logs).await.json();
    let result = json!({"token": TOKEN, "status": "PASS", "result": [1], "edits": [{"insert": {"id": "d"}}]});
    let reported = bench.post("/v1/graphs/g-1/nodes/a/result", &result).await.json();
    engine.decide("g-1").await;
    let edits = json!({"expected_revision": 2, "edits": [{"insert": {"id": "e", "parents": ["d"]}}]});
    let edited = engine.while_deciding("g-1", bench.post("/v1/graphs/g-1/edits", &edits)).await.json();
    let edits = json!({"expected_revision": 3, "edits": [{"delete": "e"}]});
    let unheeded = header(post("/v1/graphs/g-1/edits", &edits), "prefer", "respond-async");
    let accepted = bench.send(unheeded).await.json();
    engine.answer("g-1", "b", NodeStatus::Pass, r#"{"go":false}"#).await;
    let executor =
        json!({"name": "x", "address": "http://h:1", "capacity": 1, "roles": ["r"], "labels": ["l"]});
    let registered = bench.post("/v1/executors", &executor).await.json();
    let fan_out = json!({"graph_id": "g-2", "name": "many", "input": {"list": [1, {"a": 2}]},
        "options": {"timeout": "1h", "max_parallel": 2, "node": {"timeout": "10s", "retry": {"attempts": 2}}},
        "nodes": [{"id": "f", "fan_out": {"over": "input.list"}}]});
    let created = bench.post("/v1/graphs", &fan_out).await.json();
    engine.decide("g-2").await;
    for (schema, answer) in [
        ("Graph", created),
        ("Graph", bench.get("/v1/graphs/g-1").await.json()),
        ("GraphPage", bench.get("/v1/graphs").await.json()),
        ("NodePage", bench.get("/v1/graphs/g-1/nodes").await.json()),
        ("NodePage", bench.get("/v1/graphs/g-2/nodes").await.json()),
        ("NodeDetail", bench.get("/v1/graphs/g-1/nodes/a").await.json()),
        ("NodeDetail", bench.get("/v1/graphs/g-1/nodes/d").await.json()),
        ("NodeLogPage", bench.get("/v1/graphs/g-1/nodes/a/logs").await.json()),
        ("NodeHeld", held),
        ("Node", reported),
        ("GraphEdited", edited),
        ("GraphEditAccepted", accepted),
        ("ExecutorRegistered", registered),
        ("ExecutorPage", bench.get("/v1/executors").await.json()),
        ("NewGraph", chain("g-1")),
        ("NewGraph", fan_out),
        ("Execution", bench.get("/v1/executions/g-1").await.json()),
        ("TransitionPage", bench.get("/v1/executions/g-1/history").await.json()),
        ("ActionPage", bench.get("/v1/executions/g-1/actions").await.json()),
    ] {
        assert_eq!(mismatches(&document, schema, &answer), Vec::<String>::new(), "{answer:#}");
    }
}

#[tokio::test]
async fn openapi_graph_example_is_valid() {
    let bench = crate::bench::Bench::open();
    let document = bench.get("/openapi.json").await.json();
    let example = &document["components"]["schemas"]["NewGraph"]["examples"][0];
    let created = bench.post("/v1/graphs", example).await;
    assert_eq!(created.status, 201, "{created:?}");
}
