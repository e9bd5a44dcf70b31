//! Queues and people are put, read and paused.

use serde_json::json;

use crate::bench::{Bench, with_type};

#[tokio::test]
async fn queue_put_creates_then_replaces() {
    let bench = Bench::open();
    let put = |config| {
        let bench = &bench;
        async move { bench.put("/v1/queues/review", &config).await }
    };
    let created = put(json!({"overlap": 2})).await;
    assert_eq!(created.status, 201, "{created:?}");
    let queue = created.json();
    assert_eq!((&queue["queue"], &queue["state"]), (&json!("review"), &json!("active")));
    assert_eq!(queue["config"]["timeout_seconds"], 3600);
    assert_eq!(put(json!({"overlap": 2, "name": "review"})).await.status, 200);
    assert_eq!(put(json!({"overlap": 3})).await.json()["config"]["overlap"], 3);
    // A shown queue can be put again.
    assert_eq!(put(queue["config"].clone()).await.status, 200);
    let other = put(json!({"name": "other"})).await.problem(422, "invalid");
    assert_eq!(other["problems"][0]["path"], "name");
}

#[tokio::test]
async fn queue_rules_are_compiled_off_runtime() {
    let bench = Bench::open();
    bench.get("/v1/queues").await;
    // The store of the test answers immediately: a request that compiles nothing is ready at its first poll.
    assert!(futures::poll!(std::pin::pin!(bench.get("/v1/queues"))).is_ready());
    let rules = json!({"rules": [{"if": "answer.a > 1", "message": "too much"}]});
    let mut put = std::pin::pin!(bench.put("/v1/queues/review", &rules));
    assert!(futures::poll!(&mut put).is_pending());
    assert_eq!(put.await.status, 201);
}

#[tokio::test]
async fn attempts_per_person_have_alias_in_requests() {
    let bench = Bench::open();
    let created = bench.put("/v1/queues/review", &json!({"max_attempts_per_labeler": 2})).await.json();
    let shown = bench.get("/v1/queues/review").await.json();
    assert_eq!(shown["config"]["max_attempts_per_person"], 2, "{shown}");
    assert_eq!(shown["config"].get("max_attempts_per_labeler"), None, "{shown}");
    assert_eq!(created["config"], shown["config"]);
    // A shown queue can be put again, and nothing changes.
    let same = bench.put("/v1/queues/review", &shown["config"]).await;
    assert_eq!((same.status.as_u16(), same.json()), (200, shown));
    let both = json!({"max_attempts_per_person": 2, "max_attempts_per_labeler": 2});
    let problem = bench.put("/v1/queues/review", &both).await.problem(422, "invalid");
    assert_eq!(problem["problems"][0]["path"], "max_attempts_per_labeler");
    let message = problem["problems"][0]["message"].as_str().unwrap();
    assert!(message.contains("max_attempts_per_person"), "{message}");
}

#[tokio::test]
async fn queue_may_be_yaml() {
    let bench = Bench::open();
    let mut request =
        with_type("/v1/queues/review", "application/yaml", "timeout_seconds: 30m\nskills: [legal]\n");
    *request.method_mut() = "PUT".parse().unwrap();
    let queue = bench.send(request).await.json();
    assert_eq!(queue["config"]["timeout_seconds"], 1800, "{queue}");
}

#[tokio::test]
async fn unusable_queue_schema_is_rejected() {
    let bench = Bench::open();
    for (schema, path) in [
        (json!({"properties": {"a": {"type": "strnig"}}}), "schema.properties.a.type"),
        (json!({"$ref": "https://example.com/x.json"}), "schema.$ref"),
        (json!({"$schema": "http://json-schema.org/draft-07/schema#"}), "schema.$schema"),
    ] {
        let answer = bench.put("/v1/queues/q", &json!({"schema": schema})).await;
        assert_eq!(answer.problem(422, "invalid")["problems"][0]["path"], path);
    }
    bench.get("/v1/queues/q").await.problem(404, "not-found");
}

#[tokio::test]
async fn paused_queue_assigns_nothing() {
    let bench = Bench::office(json!({}), 2).await;
    let id = bench.begun("ann").await;
    assert_eq!(bench.post("/v1/queues/q/pause", &json!({})).await.json()["state"], "paused");
    assert_eq!(bench.next("bob").await["idle"], "queue_paused");
    bench.done(&id, "submit", json!({"person": "ann", "answer": 1})).await;
    bench.post("/v1/queues/q/resume", &json!({})).await;
    bench.given("bob").await;
    bench.post("/v1/queues/none/pause", &json!({})).await.problem(404, "not-found");
}

#[tokio::test]
async fn person_has_skills_and_pause() {
    let bench = Bench::office(json!({"skills": ["legal"]}), 1).await;
    assert_eq!(bench.next("ann").await["idle"], "skills");
    assert_eq!(bench.put("/v1/people/ann", &json!({"skills": ["legal"]})).await.status, 200);
    assert_eq!(bench.post("/v1/people/ann/pause", &json!({})).await.json()["state"], "paused");
    assert_eq!(bench.next("ann").await["idle"], "person_paused");
    // Skills are set again, and the pause stays.
    let put = bench.put("/v1/people/ann", &json!({"skills": ["legal", "french"]})).await.json();
    assert_eq!(put, json!({"person": "ann", "skills": ["french", "legal"], "state": "paused"}));
    bench.post("/v1/people/ann/resume", &json!({})).await;
    bench.given("ann").await;
    assert_eq!(bench.get("/v1/people/ann").await.json()["state"], "active");
    bench.get("/v1/people/eve").await.problem(404, "not-found");
}
