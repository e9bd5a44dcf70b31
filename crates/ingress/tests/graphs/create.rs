//! `POST /v1/graphs`, `GET /v1/graphs` and `GET /v1/graphs/{graph_id}`.

use serde_json::{Value, json};

use crate::bench::{Bench, header, post};
use crate::engine::Engine;

pub(crate) fn chain(id: &str) -> Value {
    json!({
        "graph_id": id,
        "name": "chain",
        "input": {"n": 1},
        "nodes": [
            {"id": "a", "task": {"goal": "begin"}},
            {"id": "b", "parents": ["a"]},
            {"id": "c", "parents": [{"node": "b", "if": "results.b.go"}]},
        ],
    })
}

pub(crate) async fn with_chain(id: &str) -> (Bench, Engine) {
    let bench = Bench::open();
    let answer = bench.post("/v1/graphs", &chain(id)).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let engine = Engine::from(&bench);
    engine.decide(id).await;
    (bench, engine)
}

#[tokio::test]
async fn graph_is_created_and_read() {
    let bench = Bench::open();
    let created = bench.post("/v1/graphs", &chain("g-1")).await;
    assert_eq!(created.status, 201, "{created:?}");
    assert_eq!(created.header("location"), "/v1/graphs/g-1");
    let graph = created.json();
    assert_eq!(graph["graph_id"], "g-1");
    assert_eq!(graph["status"], "RUNNING");
    assert_eq!(graph["revision"], 1);
    assert_eq!(graph["nodes"], json!({"PENDING": 3}));
    assert_eq!(graph["input"], json!({"n": 1}));
    assert_eq!(bench.get("/v1/graphs/g-1").await.json(), graph);
}

#[tokio::test]
async fn graph_id_is_generated() {
    let bench = Bench::open();
    let mut graph = chain("x");
    graph.as_object_mut().unwrap().remove("graph_id");
    let created = bench.post("/v1/graphs", &graph).await;
    assert_eq!(created.status, 201, "{created:?}");
    let other = bench.post("/v1/graphs", &graph).await;
    assert_ne!(created.json()["graph_id"], other.json()["graph_id"]);
}

#[tokio::test]
async fn changed_graph_with_same_id_conflicts() {
    let bench = Bench::open();
    bench.post("/v1/graphs", &chain("g-1")).await;
    let mut same = chain("g-1");
    // Spells out the defaults.
    same["nodes"][0]["on_failure"] = json!("skip");
    assert_eq!(bench.post("/v1/graphs", &same).await.status, 200);
    let mut other = chain("g-1");
    other["nodes"][0]["task"]["goal"] = json!("end");
    bench.post("/v1/graphs", &other).await.problem(409, "already-exists");
}

#[tokio::test]
async fn idempotency_key_names_one_graph() {
    let bench = Bench::open();
    let mut graph = chain("x");
    graph.as_object_mut().unwrap().remove("graph_id");
    let send =
        async |graph: &Value| bench.send(header(post("/v1/graphs", graph), "idempotency-key", "k")).await;
    let (first, second) = (send(&graph).await, send(&graph).await);
    assert_eq!((first.status.as_u16(), second.status.as_u16()), (201, 200));
    assert_eq!(first.json()["graph_id"], second.json()["graph_id"]);
    graph["name"] = json!("another");
    send(&graph).await.problem(422, "idempotency-key-reused");
}

#[tokio::test]
async fn graph_id_of_execution_conflicts() {
    let bench = Bench::with_order().await;
    bench.start("o-1").await;
    bench.post("/v1/graphs", &chain("o-1")).await.problem(409, "already-exists");
    bench.get("/v1/graphs/o-1").await.problem(404, "not-found");
}

#[tokio::test]
async fn graphs_are_listed_newest_first() {
    let (bench, engine) = with_chain("g-1").await;
    for id in ["g-2", "g-3"] {
        bench.post("/v1/graphs", &chain(id)).await;
        engine.decide(id).await;
    }
    for node in ["a", "b"] {
        engine.answer("g-2", node, millstream_workflow::graph::NodeStatus::Pass, r#"{"go":true}"#).await;
    }
    engine.pass("g-2", "c").await;
    let ids = |page: &Value| -> Vec<String> {
        let items = page["items"].as_array().unwrap().iter();
        items.map(|graph| graph["graph_id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&bench.get("/v1/graphs").await.json()), ["g-3", "g-2", "g-1"]);
    assert_eq!(ids(&bench.get("/v1/graphs?status=RUNNING").await.json()), ["g-3", "g-1"]);
    assert_eq!(ids(&bench.get("/v1/graphs?status=PASSED").await.json()), ["g-2"]);
    let first = bench.get("/v1/graphs?limit=2").await.json();
    assert_eq!(ids(&first), ["g-3", "g-2"]);
    let rest = format!("/v1/graphs?limit=2&cursor={}", first["next_cursor"].as_str().unwrap());
    let rest = bench.get(&rest).await.json();
    assert_eq!((ids(&rest), rest["next_cursor"].clone()), (vec!["g-1".to_owned()], Value::Null));
    assert!(rest["items"][0].get("input").is_none());
    bench.get("/v1/graphs?status=active").await.problem(422, "invalid");
}

#[tokio::test]
async fn graph_creation_starts_first_nodes() {
    let (bench, _) = with_chain("g-1").await;
    let graph = bench.get("/v1/graphs/g-1").await.json();
    assert_eq!(graph["nodes"], json!({"PENDING": 2, "RUNNING": 1}));
}
