//! Nodes: the list, one node with its result, and the log that executors wrote.

use millstream_store::graph_store::ExecutorLogText;
use millstream_workflow::graph::NodeStatus;
use serde_json::{Value, json};

use crate::bench::key;
use crate::create::with_chain;
use crate::engine::name;

fn ids(page: &Value) -> Vec<String> {
    page["items"].as_array().unwrap().iter().map(|node| node["node"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn nodes_are_listed_without_results() {
    let (bench, engine) = with_chain("g-1").await;
    engine.answer("g-1", "a", NodeStatus::Pass, r#"{"x":1}"#).await;
    let all = bench.get("/v1/graphs/g-1/nodes").await.json();
    assert_eq!(ids(&all), ["a", "b", "c"]);
    let a = &all["items"][0];
    assert_eq!((&a["status"], &a["attempt"], &a["result_bytes"]), (&json!("PASS"), &json!(1), &json!(7)));
    assert_eq!((&a["children"], a.get("result")), (&json!(["b"]), None));
    assert_eq!(a["spec"]["task"]["goal"], "begin");
    assert_eq!(ids(&bench.get("/v1/graphs/g-1/nodes?status=RUNNING").await.json()), ["b"]);
    let first = bench.get("/v1/graphs/g-1/nodes?limit=2").await.json();
    assert_eq!(ids(&first), ["a", "b"]);
    let rest = format!("/v1/graphs/g-1/nodes?limit=2&cursor={}", first["next_cursor"].as_str().unwrap());
    assert_eq!(ids(&bench.get(&rest).await.json()), ["c"]);
    bench.get("/v1/graphs/none/nodes").await.problem(404, "not-found");
    bench.get("/v1/graphs/g-1/nodes?cursor=abc").await.problem(422, "invalid");
}

#[tokio::test]
async fn node_has_result_and_reason() {
    let (bench, engine) = with_chain("g-1").await;
    engine.dispatch("g-1", "a", "exec-1").await;
    let running = bench.get("/v1/graphs/g-1/nodes/a").await.json();
    assert_eq!((&running["status"], &running["executor"]), (&json!("RUNNING"), &json!("exec-1")));
    assert_eq!(running["result"], Value::Null);
    engine.answer("g-1", "a", NodeStatus::Pass, r#"{"x":[1,2]}"#).await;
    let done = bench.get("/v1/graphs/g-1/nodes/a").await.json();
    assert_eq!((&done["status"], &done["result"]), (&json!("PASS"), &json!({"x": [1, 2]})));
    assert!(done["ended_at"].is_string(), "{done}");
    for missing in ["/v1/graphs/g-1/nodes/x", "/v1/graphs/none/nodes/a", "/v1/graphs/g-1/nodes/NO"] {
        bench.get(missing).await.problem(404, "not-found");
    }
}

#[tokio::test]
async fn node_log_is_ordered_and_paged() {
    let (bench, engine) = with_chain("g-1").await;
    let logs: Vec<ExecutorLogText> = ["one", "two", "three"]
        .iter()
        .map(|text| ExecutorLogText {
            execution: key("g-1"),
            node: name("a"),
            attempt: 1,
            text: (*text).to_owned(),
        })
        .collect();
    engine.stores.graphs.append_logs(&logs, bench.clock.now()).await.unwrap();
    let texts = |page: &Value| -> Vec<String> {
        let items = page["items"].as_array().unwrap().iter();
        items.map(|entry| entry["text"].as_str().unwrap().to_owned()).collect()
    };
    let first = bench.get("/v1/graphs/g-1/nodes/a/logs?limit=2").await.json();
    assert_eq!(texts(&first), ["one", "two"]);
    let rest = format!("/v1/graphs/g-1/nodes/a/logs?cursor={}", first["next_cursor"].as_str().unwrap());
    assert_eq!(texts(&bench.get(&rest).await.json()), ["three"]);
    assert_eq!(bench.get("/v1/graphs/g-1/nodes/b/logs").await.json()["items"], json!([]));
    bench.get("/v1/graphs/g-1/nodes/x/logs").await.problem(404, "not-found");
}
