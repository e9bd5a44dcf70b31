//! Reports of executors: results and progress, under the token of their attempt.

use millstream_workflow::graph::{NodeStatus, NodeToken};
use serde_json::json;

use crate::bench::{Answer, Bench};
use crate::create::with_chain;
use crate::engine::{Engine, TOKEN};

const RESULT: &str = "/v1/graphs/g-1/nodes/a/result";
const PROGRESS: &str = "/v1/graphs/g-1/nodes/a/progress";

/// Node `a` is held by an executor that has deferred its result.
async fn accepted() -> (Bench, Engine) {
    let (bench, engine) = with_chain("g-1").await;
    engine.dispatch("g-1", "a", "exec-1").await;
    engine.accepted("g-1", "a").await;
    (bench, engine)
}

#[tokio::test]
async fn node_result_with_current_token_advances_graph() {
    let (bench, engine) = accepted().await;
    let body = json!({"token": TOKEN, "status": "PASS", "result": {"x": 1}, "logs": "done\n"});
    let answer = bench.post(RESULT, &body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    engine.decide("g-1").await;
    let node = bench.get("/v1/graphs/g-1/nodes/a").await.json();
    assert_eq!((&node["status"], &node["result"]), (&json!("PASS"), &json!({"x": 1})));
    assert_eq!(bench.get("/v1/graphs/g-1/nodes/b").await.json()["status"], "RUNNING");
    let logs = bench.get("/v1/graphs/g-1/nodes/a/logs").await.json();
    assert_eq!(logs["items"][0]["text"], "done\n");
}

#[tokio::test]
async fn different_second_node_result_conflicts() {
    let (bench, engine) = accepted().await;
    let body = json!({"token": TOKEN, "status": "PASS", "result": 1});
    assert_eq!(bench.post(RESULT, &body).await.status, 200);
    assert_eq!(bench.post(RESULT, &body).await.status, 200);
    engine.decide("g-1").await;
    assert_eq!(bench.post(RESULT, &body).await.status, 200);
    let other = json!({"token": TOKEN, "status": "FAIL"});
    let problem = bench.post(RESULT, &other).await.problem(409, "conflict");
    assert!(problem["detail"].as_str().unwrap().contains("is over"), "{problem}");
}

#[tokio::test]
async fn earlier_attempt_cannot_report_node() {
    let (bench, engine) = accepted().await;
    engine.answer("g-1", "a", NodeStatus::Crash, "null").await;
    engine.decide("g-1").await;
    let second = engine.attempt("g-1", "a").await;
    engine.dispatch("g-1", "a", "exec-2").await;
    engine.accepted("g-1", "a").await;
    assert_eq!(second.epoch.0, 1, "the lease is as old as that of the first attempt");
    let late = json!({"token": TOKEN, "status": "PASS", "result": "mine"});
    bench.post(RESULT, &late).await.problem(409, "conflict");
    bench.post(PROGRESS, &json!({"token": TOKEN, "progress": 1})).await.problem(409, "conflict");
    let token = NodeToken::of_lease(second.key.seq, second.epoch).as_i64();
    let body = json!({"token": token, "status": "PASS", "result": "yours"});
    assert_eq!(bench.post(RESULT, &body).await.status, 200);
    engine.decide("g-1").await;
    assert_eq!(bench.get("/v1/graphs/g-1/nodes/a").await.json()["result"], "yours");
}

#[tokio::test]
async fn stale_node_token_names_holder() {
    let (bench, _) = accepted().await;
    for (path, body) in
        [(RESULT, json!({"token": 7, "status": "PASS"})), (PROGRESS, json!({"token": 7, "progress": 1}))]
    {
        let problem = bench.post(path, &body).await.problem(409, "conflict");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("exec-1") && detail.contains(&format!("token {TOKEN}")), "{detail}");
    }
    let late = json!({"token": TOKEN, "attempt": 9, "status": "PASS"});
    bench.post(RESULT, &late).await.problem(409, "conflict");
    assert_eq!(bench.get("/v1/graphs/g-1/nodes/a").await.json()["status"], "RUNNING");
}

#[tokio::test]
async fn node_attempt_is_found_despite_edits() {
    let (bench, engine) = accepted().await;
    let body = json!({"expected_revision": 1, "edits": [{"insert": {"id": "d", "parents": ["a"]}}]});
    let edited = engine.while_deciding("g-1", bench.post("/v1/graphs/g-1/edits", &body)).await;
    assert_eq!(edited.status, 200, "{edited:?}");
    let progress = bench.post(PROGRESS, &json!({"token": TOKEN, "logs": "half\n"})).await;
    assert_eq!(progress.status, 200, "{progress:?}");
    let wrong = json!({"token": TOKEN, "idempotency_key": "default/g-1/2/b", "status": "PASS"});
    bench.post(RESULT, &wrong).await.problem(422, "invalid");
    let key = engine.attempt("g-1", "a").await.key.with_revision(0);
    let body = json!({"token": TOKEN, "attempt": 1, "idempotency_key": key, "status": "PASS"});
    let answer = bench.post(RESULT, &body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

#[tokio::test]
async fn progress_of_running_attempt_is_stored() {
    let (bench, engine) = with_chain("g-1").await;
    let told = json!({"token": TOKEN, "progress": {"subtasks_done": [0]}, "logs": "one\n"});
    let answer = bench.post(PROGRESS, &told).await;
    assert_eq!((answer.status.as_u16(), answer.json()), (200, json!({"cancelled": false})), "{answer:?}");
    let node = bench.get("/v1/graphs/g-1/nodes/a").await.json();
    assert_eq!(node["progress"], json!({"subtasks_done": [0]}));
    let cancelled = engine.while_deciding("g-1", bench.post("/v1/graphs/g-1/cancel", &json!({}))).await;
    assert_eq!(cancelled.status, 200, "{cancelled:?}");
    // The executor holds the lease until its next report, whose answer is `cancelled`.
    assert_eq!(bench.post(PROGRESS, &told).await.json(), json!({"cancelled": true}));
}

#[tokio::test]
async fn progress_of_deferred_attempt_is_stored() {
    let (bench, _) = accepted().await;
    let told = |token: i64, done: i64| json!({"token": token, "progress": {"subtasks_done": [done]}});
    let answer = bench.post(PROGRESS, &told(TOKEN, 0)).await;
    assert_eq!((answer.status.as_u16(), answer.json()), (200, json!({"cancelled": false})), "{answer:?}");
    bench.post(PROGRESS, &told(TOKEN + 1, 1)).await.problem(409, "conflict");
    let node = bench.get("/v1/graphs/g-1/nodes/a").await.json();
    assert_eq!(node["progress"], json!({"subtasks_done": [0]}));
    let result = json!({"token": TOKEN, "status": "PASS", "result": 1});
    assert_eq!(bench.post(RESULT, &result).await.status, 200);
    bench.post(PROGRESS, &told(TOKEN, 2)).await.problem(409, "conflict");
}

#[tokio::test]
async fn node_result_may_carry_edits() {
    let (bench, engine) = accepted().await;
    let body = json!({"token": TOKEN, "status": "PASS", "result": {"n": 2}, "edits": [
        {"insert": {"id": "d", "parents": [{"node": "a", "if": "results.a.n == 2"}]}},
    ]});
    assert_eq!(bench.post(RESULT, &body).await.status, 200);
    engine.decide("g-1").await;
    assert_eq!(bench.get("/v1/graphs/g-1/nodes/d").await.json()["status"], "RUNNING");
    assert_eq!(bench.get("/v1/graphs/g-1").await.json()["revision"], 2);
    let node = bench.get("/v1/graphs/g-1/nodes/a").await.json();
    assert_eq!(node["edits"].as_array().unwrap().len(), 1, "{node}");
}

#[tokio::test]
async fn invalid_node_report_is_rejected() {
    let (bench, _) = accepted().await;
    let large = "x".repeat(1024 * 1024 + 1);
    for (body, path) in [
        (json!({"status": "PASS"}), "token"),
        (json!({"token": "1", "status": "PASS"}), "token"),
        (json!({"token": TOKEN}), "status"),
        (json!({"token": TOKEN, "status": "SKIPPED"}), "status"),
        (json!({"token": TOKEN, "status": "pass"}), "status"),
        (json!({"token": TOKEN, "status": "PASS", "result": large}), "result"),
        (json!({"token": TOKEN, "status": "PASS", "edits": [{}]}), "edits[0]"),
        (json!({"token": TOKEN, "status": "PASS", "reslut": 1}), "reslut"),
    ] {
        let problem = bench.post(RESULT, &body).await.problem(422, "invalid");
        assert_eq!(problem["problems"][0]["path"], path, "{problem}");
    }
    let body = json!({"token": TOKEN, "status": "PASS"});
    for missing in ["/v1/graphs/g-1/nodes/x/result", "/v1/graphs/none/nodes/a/result"] {
        bench.post(missing, &body).await.problem(404, "not-found");
    }
    // The node has not started.
    bench.post("/v1/graphs/g-1/nodes/b/result", &body).await.problem(409, "conflict");
}

fn is_running(answer: &Answer) -> bool {
    answer.json()["status"] == "RUNNING"
}

#[tokio::test]
async fn execution_node_accepts_no_report() {
    let bench = Bench::open();
    let graph = json!({"graph_id": "g-1", "name": "nested", "nodes": [
        {"id": "a", "graph": {"name": "inner", "nodes": [{"id": "x"}]}},
    ]});
    assert_eq!(bench.post("/v1/graphs", &graph).await.status, 201);
    Engine::from(&bench).decide("g-1").await;
    assert!(is_running(&bench.get("/v1/graphs/g-1/nodes/a").await));
    let problem = bench.post(RESULT, &json!({"token": TOKEN, "status": "PASS"})).await;
    assert!(problem.problem(409, "conflict")["detail"].as_str().unwrap().contains("child execution"));
}

#[tokio::test]
async fn fan_out_report_needs_instance() {
    let bench = Bench::open();
    let graph = json!({"graph_id": "g-1", "name": "many", "input": {"list": [1, 2]}, "nodes": [
        {"id": "a", "fan_out": {"over": "input.list"}},
    ]});
    assert_eq!(bench.post("/v1/graphs", &graph).await.status, 201);
    let engine = Engine::from(&bench);
    engine.decide("g-1").await;
    assert!(is_running(&bench.get("/v1/graphs/g-1/nodes/a").await));
    let body = json!({"token": TOKEN, "status": "PASS"});
    bench.post(RESULT, &body).await.problem(409, "conflict");
    for instance in ["a.0", "a.1"] {
        let answer = bench.post(&format!("/v1/graphs/g-1/nodes/{instance}/result"), &body).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    engine.decide("g-1").await;
    assert_eq!(bench.get("/v1/graphs/g-1").await.json()["status"], "PASSED");
}
