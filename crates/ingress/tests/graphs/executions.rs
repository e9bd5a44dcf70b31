//! A graph is an execution: execution routes work for it, or name the route that does.

use millstream_workflow::graph::NodeStatus;
use serde_json::json;

use crate::create::with_chain;

#[tokio::test]
async fn graph_is_readable_as_execution() {
    let (bench, _) = with_chain("g-1").await;
    let execution = bench.get("/v1/executions/g-1").await.json();
    assert_eq!(
        (&execution["definition"], &execution["status"]),
        (&json!("millstream.graph"), &json!("active"))
    );
    let history = bench.get("/v1/executions/g-1/history").await.json();
    let names: Vec<_> = history["items"].as_array().unwrap().iter().map(|it| it["name"].clone()).collect();
    assert_eq!(names, ["millstream.start", "millstream.begin"]);
    for path in ["actions", "timers"] {
        assert_eq!(bench.get(&format!("/v1/executions/g-1/{path}")).await.status, 200);
    }
    assert_eq!(bench.get("/v1/executions/g-1?at_seq=1").await.json()["seq"], 1);
    assert_eq!(
        bench.get("/v1/executions?definition=millstream.graph").await.json()["items"][0]["execution_id"],
        "g-1"
    );
}

#[tokio::test]
async fn graph_history_shows_node_outcomes() {
    let (bench, engine) = with_chain("g-1").await;
    assert_eq!(bench.get("/v1/graphs/g-1").await.json()["ended_at"], json!(null));
    engine.answer("g-1", "a", NodeStatus::Fail, "1").await;
    engine.decide("g-1").await;
    let history = bench.get("/v1/executions/g-1/history").await.json();
    let items = history["items"].as_array().unwrap();
    let nodes = |at: usize| items[at]["graph"]["nodes"].as_array().unwrap().clone();
    assert_eq!((nodes(0).len(), &items[0]["graph"]["revision"]), (0, &json!(1)), "{history}");
    assert_eq!(
        (&nodes(1)[0]["node"], &nodes(1)[0]["status"], &nodes(1)[0]["attempt"]),
        (&json!("a"), &json!("RUNNING"), &json!(1)),
        "{history}"
    );
    let last = items.len() - 1;
    assert_eq!(
        (&nodes(last)[0]["node"], &nodes(last)[0]["status"]),
        (&json!("a"), &json!("FAIL")),
        "{history}"
    );
    let graph = bench.get("/v1/graphs/g-1").await.json();
    assert_eq!((&graph["status"], &graph["ended_at"]), (&json!("FAILED"), &items[last]["at"]), "{graph}");
}

#[tokio::test]
async fn graph_rejects_events_naming_edits() {
    let (bench, _) = with_chain("g-1").await;
    for name in ["pay", "millstream.edit", "millstream.node"] {
        let problem = bench.post("/v1/executions/g-1/events", &json!({"name": name})).await;
        let problem = problem.problem(422, "unknown-event");
        assert!(problem["detail"].as_str().unwrap().contains("/v1/graphs/g-1/edits"), "{problem}");
    }
    let batch = bench.post("/v1/events", &json!([{"execution_id": "g-1", "name": "pay"}])).await;
    assert_eq!(batch.status, 202, "{batch:?}");
    assert_eq!(batch.json()["items"][0]["problem"]["status"], 422);
}

#[tokio::test]
async fn definition_lookups_tolerate_graphs() {
    let (bench, engine) = with_chain("g-1").await;
    let started = bench.post("/v1/executions", &json!({"definition": "millstream.graph"})).await;
    started.problem(404, "not-found");
    let key = engine.attempt("g-1", "a").await.key.with_revision(0).replace('/', "%2F");
    let done = bench.post(&format!("/v1/tasks/{key}/complete"), &json!({"token": 1})).await;
    done.problem(409, "conflict");
    assert_eq!(bench.get(&format!("/v1/tasks/{key}/why")).await.status, 200);
}
