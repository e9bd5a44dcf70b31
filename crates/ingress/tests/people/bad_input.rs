//! Faults have paths; acts on foreign assignments, or impossible in the current state, are rejected with the
//! state.

use serde_json::json;

use crate::bench::Bench;

#[tokio::test]
async fn invalid_people_requests_have_paths() {
    let bench = Bench::office(json!({}), 1).await;
    let id = bench.begun("ann").await;
    let about = |verb: &str| format!("/v1/assignments/{id}/{verb}");
    for (path, body, place) in [
        ("/v1/assignments/next".to_owned(), json!({}), "person"),
        ("/v1/assignments/next".to_owned(), json!({"person": "a b"}), "person"),
        ("/v1/assignments/next".to_owned(), json!({"person": "ann", "queues": "q"}), "queues"),
        ("/v1/assignments/next".to_owned(), json!({"person": "ann", "queues": []}), "queues"),
        ("/v1/assignments/next".to_owned(), json!({"person": "ann", "start": 1}), "start"),
        ("/v1/assignments/next".to_owned(), json!({"person": "ann", "que": 1}), "que"),
        (about("submit"), json!({"person": "ann"}), "answer"),
        (about("submit"), json!({"answer": 1}), "person"),
        (about("skip"), json!({"person": "ann", "reason": "a".repeat(2_001)}), "reason"),
        (about("heartbeat"), json!({"person": "ann", "more": 1}), "more"),
        ("/v1/queues/q/items".to_owned(), json!({"payload": 1, "overlap": 0}), "overlap"),
        ("/v1/queues/q/items".to_owned(), json!({"item_id": "a b", "payload": 1}), "item_id"),
        ("/v1/queues/q/items".to_owned(), json!({"item_id": "x"}), "payload"),
        ("/v1/queues/q/items".to_owned(), json!({"payload": 1, "due_at": "tomorrow"}), "due_at"),
        ("/v1/queues/q/items".to_owned(), json!({"payload": 1, "skills": ["A b"]}), "skills"),
        ("/v1/queues/q/items".to_owned(), json!({"payload": 1, "priority": 1.5}), "priority"),
    ] {
        let problem = bench.post(&path, &body).await.problem(422, "invalid");
        assert_eq!(problem["problems"][0]["path"], place, "{path} {body}: {problem}");
    }
    let problem = bench.put("/v1/people/ann", &json!({"skills": "x"})).await.problem(422, "invalid");
    assert_eq!(problem["problems"][0]["path"], "skills");
    let problem = bench.put("/v1/queues/q", &json!({"overlap": 0, "x": 1})).await.problem(422, "invalid");
    assert_eq!(problem["problems"].as_array().unwrap().len(), 2, "{problem}");
    for path in [
        "/v1/queue_stats?by=x",
        "/v1/queue_stats?from=2026-1-1",
        "/v1/items?status=x",
        "/v1/assignments?item=%20",
    ] {
        bench.get(path).await.problem(422, "invalid");
    }
}

#[tokio::test]
async fn unknown_assignment_or_item_is_404() {
    let bench = Bench::office(json!({}), 1).await;
    let none = "00000000-0000-7000-8000-000000000000";
    for id in [none, "no-uuid"] {
        bench.act(id, "start", json!({"person": "ann"})).await.problem(404, "not-found");
        bench.act(id, "reassign", json!({})).await.problem(404, "not-found");
        bench.get(&format!("/v1/assignments/{id}")).await.problem(404, "not-found");
    }
    bench.get("/v1/items/none").await.problem(404, "not-found");
    bench.get("/v1/items/none/log").await.problem(404, "not-found");
    bench.post("/v1/items/none/withdraw", &json!({})).await.problem(404, "not-found");
    bench.post("/v1/queues/none/items", &json!({"payload": 1})).await.problem(404, "not-found");
}

#[tokio::test]
async fn assignment_rejects_other_people() {
    let bench = Bench::office(json!({}), 1).await;
    let id = bench.begun("ann").await;
    for (verb, body) in [
        ("start", json!({"person": "bob"})),
        ("submit", json!({"person": "bob", "answer": 1})),
        ("skip", json!({"person": "bob"})),
        ("heartbeat", json!({"person": "bob"})),
    ] {
        bench.act(&id, verb, body).await.problem(409, "not-owner");
    }
}

#[tokio::test]
async fn impossible_assignment_act_names_state() {
    let bench = Bench::office(json!({}), 1).await;
    let id = bench.given("ann").await;
    for (verb, body) in [
        ("submit", json!({"person": "ann", "answer": 1})),
        ("skip", json!({"person": "ann"})),
        ("heartbeat", json!({"person": "ann"})),
        ("correct", json!({})),
    ] {
        let problem = bench.act(&id, verb, body).await.problem(409, "conflict");
        assert!(problem["detail"].as_str().unwrap().contains("pending"), "{problem}");
    }
}

#[tokio::test]
async fn queue_may_require_skip_reason() {
    let bench = Bench::office(json!({"skip_requires_reason": true}), 1).await;
    let id = bench.begun("ann").await;
    let problem =
        bench.act(&id, "skip", json!({"person": "ann", "reason": " "})).await.problem(422, "invalid");
    assert_eq!(problem["problems"][0]["path"], "reason");
}
