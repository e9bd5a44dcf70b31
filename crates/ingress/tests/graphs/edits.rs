//! `POST /v1/graphs/{graph_id}/edits`.

use millstream_workflow::graph::NodeStatus;
use serde_json::{Value, json};

use crate::bench::{Answer, Bench, header, post};
use crate::create::with_chain;
use crate::engine::Engine;

const EDITS: &str = "/v1/graphs/g-1/edits";

async fn edit(bench: &Bench, engine: &Engine, body: &Value) -> Answer {
    engine.while_deciding("g-1", bench.post(EDITS, body)).await
}

#[tokio::test]
async fn graph_edits_return_new_revision() {
    let (bench, engine) = with_chain("g-1").await;
    let body = json!({"expected_revision": 1, "edits": [
        {"insert": {"id": "d", "parents": ["a"]}},
        {"update": {"id": "b", "parents": ["a"], "task": {"goal": "another"}}},
        {"delete": "c"},
    ]});
    let edited = edit(&bench, &engine, &body).await;
    assert_eq!(edited.status, 200, "{edited:?}");
    assert_eq!(edited.json(), json!({"graph_id": "g-1", "revision": 2}));
    let nodes = bench.get("/v1/graphs/g-1/nodes").await.json();
    let ids: Vec<_> = nodes["items"].as_array().unwrap().iter().map(|node| node["node"].clone()).collect();
    assert_eq!(ids, ["a", "b", "d"]);
    assert_eq!(bench.get("/v1/graphs/g-1/nodes/b").await.json()["spec"]["task"]["goal"], "another");
}

#[tokio::test]
async fn stale_graph_revision_conflicts() {
    let (bench, engine) = with_chain("g-1").await;
    let body = json!({"expected_revision": 7, "edits": [{"delete": "c"}]});
    let problem = edit(&bench, &engine, &body).await.problem(409, "revision-conflict");
    assert!(problem["detail"].as_str().unwrap().contains("revision 1"), "{problem}");
}

#[tokio::test]
async fn concurrent_graph_edits_apply_once() {
    let (bench, engine) = with_chain("g-1").await;
    let insert = |id: &str| json!({"expected_revision": 1, "edits": [{"insert": {"id": id}}]});
    let (one, other) = (insert("x"), insert("y"));
    // Both pass the ingress checks before either is decided.
    let both = async {
        let (one, other) = tokio::join!(bench.post(EDITS, &one), bench.post(EDITS, &other));
        [one, other]
    };
    let mut both = std::pin::pin!(both);
    let waiting = millstream_testkit::eventually(std::time::Duration::from_secs(10), || async {
        let pending = bench.get("/v1/events?status=pending").await.json()["items"].as_array().unwrap().len();
        if pending == 2 { Ok(()) } else { Err(pending) }
    });
    tokio::select! {
        answers = &mut both => panic!("no edit was decided: {answers:?}"),
        () = waiting => {}
    }
    let answers = engine.while_deciding("g-1", both).await;
    let mut statuses = answers.each_ref().map(|answer| answer.status.as_u16());
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409], "{answers:?}");
    let late = answers.iter().find(|answer| answer.status == 409).unwrap();
    late.problem(409, "revision-conflict");
}

#[tokio::test]
async fn unfit_graph_edits_have_paths() {
    let (bench, engine) = with_chain("g-1").await;
    for (edits, path, words) in [
        (json!([{"insert": {"id": "a"}}]), "edits[0].insert.id", "already"),
        (json!([{"update": {"id": "a"}}]), "edits[0].update.id", "PENDING"),
        (json!([{"delete": "x"}]), "edits[0].delete", "there is no"),
        (json!([{"delete": "b"}]), "edits[0].delete", "parent of"),
        (json!([{"insert": {"id": "d", "parents": ["x"]}}]), "edits[0].insert.parents[0]", "there is no"),
        (json!([{"update": {"id": "b", "parents": ["c"]}}]), "edits", ""),
    ] {
        let body = json!({"expected_revision": 1, "edits": edits});
        let problem = edit(&bench, &engine, &body).await.problem(422, "edits-do-not-fit");
        let told = problem["problems"].as_array().unwrap();
        let found = told.iter().any(|it| {
            it["path"].as_str().unwrap().starts_with(path) && it["message"].as_str().unwrap().contains(words)
        });
        assert!(found, "{path} is not in {told:?}");
    }
    assert_eq!(bench.get("/v1/graphs/g-1").await.json()["revision"], 1);
}

#[tokio::test]
async fn malformed_graph_edits_are_rejected() {
    let (bench, engine) = with_chain("g-1").await;
    for (body, path) in [
        (json!({"edits": [{"delete": "c"}]}), "expected_revision"),
        (json!({"expected_revision": 1}), "edits"),
        (json!({"expected_revision": -1, "edits": [{"delete": "c"}]}), "expected_revision"),
        (json!({"expected_revision": 1, "edits": [{"remove": "c"}]}), "edits[0]"),
        (json!({"expected_revision": 1, "edits": [{"insert": {"id": "d", "x": 1}}]}), "edits[0].insert.x"),
        (json!({"expected_revision": 1, "edits": "c"}), "edits"),
    ] {
        let problem = edit(&bench, &engine, &body).await.problem(422, "invalid");
        let first = problem["problems"][0]["path"].as_str().unwrap();
        assert!(first.starts_with(path), "{path} is not {first}: {problem}");
    }
    let many: Vec<Value> = (0..1_001).map(|at| json!({"insert": {"id": format!("n{at}")}})).collect();
    let body = json!({"expected_revision": 1, "edits": many});
    edit(&bench, &engine, &body).await.problem(413, "too-large");
    let body = json!({"expected_revision": 1, "edits": [{"delete": "c"}]});
    bench.post("/v1/graphs/none/edits", &body).await.problem(404, "not-found");
}

#[tokio::test]
async fn ended_graph_cannot_be_edited() {
    let (bench, engine) = with_chain("g-1").await;
    engine.answer("g-1", "a", NodeStatus::Fail, "null").await;
    let body = json!({"expected_revision": 1, "edits": [{"insert": {"id": "d"}}]});
    edit(&bench, &engine, &body).await.problem(409, "conflict");
}

#[tokio::test]
async fn graph_edit_without_wait_is_202() {
    let (bench, engine) = with_chain("g-1").await;
    let body = json!({"expected_revision": 1, "edits": [{"delete": "c"}]});
    let accepted = bench.send(header(post(EDITS, &body), "prefer", "respond-async")).await;
    assert_eq!(accepted.status, 202, "{accepted:?}");
    let event = accepted.header("location").to_owned();
    assert_eq!(bench.get(&event).await.json()["status"], "pending");
    engine.decide("g-1").await;
    assert_eq!(bench.get(&event).await.json()["status"], "completed");
    assert_eq!(bench.get("/v1/graphs/g-1").await.json()["revision"], 2);
}

#[tokio::test]
async fn repeated_graph_edit_returns_original_answer() {
    let (bench, engine) = with_chain("g-1").await;
    let send = async |body: &Value| {
        let request = header(post(EDITS, body), "idempotency-key", "k");
        engine.while_deciding("g-1", bench.send(request)).await
    };
    let body = json!({"expected_revision": 1, "edits": [{"delete": "c"}]});
    let first = send(&body).await;
    assert_eq!(first.status, 200, "{first:?}");
    let again = send(&body).await;
    assert_eq!((again.status, again.json()), (first.status, first.json()));
    let other = json!({"expected_revision": 2, "edits": [{"insert": {"id": "d"}}]});
    send(&other).await.problem(422, "idempotency-key-reused");
}

#[tokio::test]
async fn graph_edit_may_reference_ended_node() {
    let (bench, engine) = with_chain("g-1").await;
    engine.answer("g-1", "a", NodeStatus::Pass, r#"{"deep":true}"#).await;
    let insert = |id: &str, condition: &str| json!({"insert": {"id": id, "parents": [{"node": "a", "if": condition}]}});
    let body = json!({"expected_revision": 1, "edits": [
        insert("yes", "results.a.deep"), insert("no", "!results.a.deep"),
    ]});
    let edited = edit(&bench, &engine, &body).await;
    assert_eq!(edited.status, 200, "{edited:?}");
    assert_eq!(bench.get("/v1/graphs/g-1/nodes/yes").await.json()["status"], "RUNNING");
    assert_eq!(bench.get("/v1/graphs/g-1/nodes/no").await.json()["status"], "FILTERED");
}
