//! Graphs that are rejected, and the faults that the caller gets.

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::bench::{Bench, open_options, with_type};

fn graph(nodes: Value) -> Value {
    json!({"name": "bad", "nodes": nodes})
}

#[tokio::test]
async fn invalid_graph_fault_has_path() {
    let bench = Bench::open();
    for (body, path, words) in [
        (
            graph(json!([{"id": "a", "parents": ["b"]}, {"id": "b", "parents": ["a"]}])),
            "nodes",
            "wait for each other",
        ),
        (graph(json!([{"id": "a", "parents": ["a"]}])), "nodes[0].parents[0]", ""),
        (graph(json!([{"id": "a", "parents": ["x"]}])), "nodes[0].parents[0]", "there is no \"x\""),
        (graph(json!([{"id": "a"}, {"id": "a"}])), "nodes[1].id", "twice"),
        (graph(json!([])), "nodes", "at least one"),
        (graph(json!([{"id": "Not A Name"}])), "nodes[0].id", "only"),
        (graph(json!([{"id": "a", "pearents": []}])), "nodes[0].pearents", "unknown field"),
        (graph(json!([{"id": "a", "parents": [7]}])), "nodes[0].parents[0]", "the id of a node"),
        (graph(json!([{"id": "a", "options": {"timeout": "soon"}}])), "nodes[0].options.timeout", ""),
        (
            graph(json!([{"id": "a"}, {"id": "b", "parents": [{"node": "a", "if": "results.a ++"}]}])),
            "nodes[1].parents[0].if",
            "",
        ),
        (json!({"name": "", "nodes": [{"id": "a"}]}), "name", ""),
        (json!({"name": "x", "input": [1], "nodes": [{"id": "a"}]}), "input", "an object"),
        (json!({"nodes": [{"id": "a"}]}), "", "name"),
        (json!({"graph_id": "no spaces", "name": "x", "nodes": [{"id": "a"}]}), "graph_id", "only"),
        (json!(7), "", "an object"),
    ] {
        let problem = bench.post("/v1/graphs", &body).await.problem(422, "invalid");
        let told: Vec<String> = problem["problems"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| format!("{}: {}", it["path"].as_str().unwrap(), it["message"].as_str().unwrap()))
            .collect();
        let found = told.iter().any(|it| it.starts_with(&format!("{path}: ")) && it.contains(words));
        assert!(found, "{path} {words:?} is not in {told:?}");
    }
    let none = bench.get("/v1/graphs").await.json();
    assert_eq!(none["items"], json!([]));
}

#[tokio::test]
async fn graph_of_garbage_is_400() {
    let bench = Bench::open();
    for garbage in ["", "{", "{\"name\": }", "\u{0}", "[1,2", "{} x"] {
        bench.send(with_type("/v1/graphs", "application/json", garbage)).await.problem(400, "bad-request");
    }
    bench.send(with_type("/v1/graphs", "text/plain", "{}")).await.problem(415, "unsupported-media-type");
}

#[tokio::test]
async fn graph_node_count_is_limited() {
    let bench = Bench::open();
    let nodes: Vec<Value> = (0..100_000).map(|at| json!({"id": format!("n{at}")})).collect();
    let problem = bench.post("/v1/graphs", &graph(json!(nodes))).await.problem(413, "too-large");
    assert!(problem["detail"].as_str().unwrap().contains("20000"), "{problem}");
}

#[tokio::test]
async fn graph_of_twenty_thousand_nodes_is_created() {
    let bench = Bench::open();
    let nodes: Vec<Value> = (0..20_000).map(|at| json!({"id": format!("n{at}")})).collect();
    let created = bench.post("/v1/graphs", &graph(json!(nodes))).await;
    assert_eq!(created.status, StatusCode::CREATED, "{}", created.text);
    assert_eq!(created.json()["nodes"]["PENDING"], 20_000);
}

#[tokio::test]
async fn graph_body_has_its_own_limit() {
    let bench = Bench::open();
    let large = format!("{{\"name\":\"{}\"}}", "x".repeat(16 * 1024 * 1024));
    bench.send(with_type("/v1/graphs", "application/json", large)).await.problem(413, "too-large");
    // More than the 8 MiB of other bodies, most of it padding.
    let nodes = json!([{"id": "a"}]).to_string();
    let padded = format!("{{\"name\":\"wide\",{}\"nodes\":{nodes}}}", " ".repeat(9 * 1024 * 1024));
    let created = bench.send(with_type("/v1/graphs", "application/json", padded)).await;
    assert_eq!(created.status, StatusCode::CREATED, "{}", created.text);
}

#[tokio::test]
async fn graph_body_limit_is_configurable() {
    let mut options = open_options();
    options.limits.graph_bytes = 64;
    let bench = Bench::with(options, |stores, streams| (stores, streams));
    let wide = graph(json!([{"id": "a", "task": {"goal": "x".repeat(64)}}]));
    bench.post("/v1/graphs", &wide).await.problem(413, "too-large");
}

#[tokio::test]
async fn deeply_nested_graph_input_is_rejected() {
    let bench = Bench::open();
    let deep = format!("{}{}", "{\"a\":".repeat(70), "1".to_owned() + &"}".repeat(70));
    let body = format!("{{\"name\":\"deep\",\"input\":{deep},\"nodes\":[{{\"id\":\"a\"}}]}}");
    let answer = bench.send(with_type("/v1/graphs", "application/json", body)).await;
    let problem = answer.problem(422, "invalid");
    assert_eq!(problem["problems"][0]["path"], "input", "{problem}");
}
