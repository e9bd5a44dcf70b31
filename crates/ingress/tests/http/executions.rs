//! Starting executions and reading them, now and at an earlier point.

use serde_json::{Value, json};

use crate::bench::{Bench, header, post};

#[tokio::test]
async fn start_is_201_with_location() {
    let bench = Bench::with_order().await;
    let body = json!({"definition": "order", "execution_id": "o-1", "input": {"customer": "ann"}});
    let answer = bench.post("/v1/executions", &body).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(answer.header("location"), "/v1/executions/o-1");
    let execution = answer.json();
    assert_eq!(execution["context"], json!({"customer": "ann", "total": 10}));
    assert_eq!(
        (&execution["state"], &execution["status"], &execution["seq"], &execution["version"]),
        (&json!("received"), &json!("active"), &json!(1), &json!(1))
    );
    assert_eq!(bench.get("/v1/executions/o-1").await.json(), execution);
    let history = bench.get("/v1/executions/o-1/history").await.json();
    let first = &history["items"][0];
    assert_eq!((&first["seq"], &first["name"]), (&json!(1), &json!("millstream.start")));
    assert_eq!((&first["from_state"], &first["payload"]), (&json!(null), &json!({"customer": "ann"})));
    assert_eq!(first["at"], execution["created_at"], "it dates from its first transition");
}

#[tokio::test]
async fn repeated_start_with_other_input_conflicts() {
    let bench = Bench::with_order().await;
    let body = json!({"definition": "order", "execution_id": "o-1", "input": {"customer": "ann"}});
    let first = bench.post("/v1/executions", &body).await;
    let again = bench.post("/v1/executions", &body).await;
    assert_eq!((again.status.as_u16(), again.json()), (200, first.json()));
    let other = json!({"definition": "order", "execution_id": "o-1", "input": {"customer": "bob"}});
    bench.post("/v1/executions", &other).await.problem(409, "conflict");
    let other = json!({"definition": "order", "execution_id": "o-1", "input": {"customer": "ann"}, "events": [{"name": "pay"}]});
    bench.post("/v1/executions", &other).await.problem(409, "conflict");
}

#[tokio::test]
async fn start_repeat_ignores_newer_definition() {
    let bench = Bench::with_order().await;
    let body = json!({"definition": "order", "execution_id": "o-1"});
    bench.post("/v1/executions", &body).await;
    let changed = crate::bench::ORDER.replace("total: 10", "total: 11");
    bench.send(crate::bench::yaml("/v1/definitions", &changed)).await;
    let again = bench.post("/v1/executions", &body).await;
    assert_eq!((again.status.as_u16(), &again.json()["version"]), (200, &json!(1)));
}

#[tokio::test]
async fn idempotency_key_identifies_start() {
    let bench = Bench::with_order().await;
    let start = |input: Value| {
        header(
            post("/v1/executions", &json!({"definition": "order", "input": input})),
            "idempotency-key",
            "k 1",
        )
    };
    let first = bench.send(start(json!({"a": 1}))).await;
    let again = bench.send(start(json!({"a": 1}))).await;
    assert_eq!((first.status.as_u16(), again.status.as_u16()), (201, 200));
    assert_eq!(first.json()["execution_id"], again.json()["execution_id"]);
    bench.send(start(json!({"a": 2}))).await.problem(422, "idempotency-key-reused");
    let unkeyed = bench.post("/v1/executions", &json!({"definition": "order"})).await.json();
    assert_ne!(unkeyed["execution_id"], first.json()["execution_id"]);
}

#[tokio::test]
async fn start_commits_initial_events_in_order() {
    let bench = Bench::with_order().await;
    let events = json!([{"name": "pay", "payload": {"amount": 7}}, {"name": "ship"}]);
    let body = json!({"definition": "order", "execution_id": "o-1", "events": events});
    assert_eq!(bench.post("/v1/executions", &body).await.status, 201);
    let listed = bench.get("/v1/events?execution_id=o-1").await.json();
    let names: Vec<_> =
        listed["items"].as_array().unwrap().iter().map(|event| event["name"].clone()).collect();
    assert_eq!(names, ["millstream.start", "pay", "ship"]);
    bench.decide("o-1").await;
    let ended = bench.get("/v1/executions/o-1").await.json();
    assert_eq!((&ended["status"], &ended["state"]), (&json!("completed"), &json!("shipped")));
    // The repeat adds no second pair of events.
    assert_eq!(bench.post("/v1/executions", &body).await.status, 200);
    assert_eq!(bench.get("/v1/events?execution_id=o-1").await.json()["items"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn invalid_start_lists_faults() {
    let bench = Bench::with_order().await;
    let refused = |body: Value, status: u16, kind: &'static str| {
        let bench = &bench;
        async move { bench.post("/v1/executions", &body).await.problem(status, kind) }
    };
    refused(json!({"definition": "nothing"}), 404, "not-found").await;
    refused(json!({"definition": "order", "version": 9}), 404, "not-found").await;
    refused(json!({"definition": "order", "version": "1"}), 422, "invalid").await;
    refused(json!({"definition": "order", "execution_id": "a b"}), 422, "invalid").await;
    refused(json!({"definition": "order", "execution_id": "x".repeat(129)}), 422, "invalid").await;
    refused(json!({"definition": "order", "input": 7}), 422, "invalid").await;
    refused(json!({"definition": "order", "input": {"a": "x".repeat(256 * 1024)}}), 413, "too-large").await;
    refused(json!({"definition": "order", "events": [{"name": "pya"}]}), 422, "unknown-event").await;
    let document = refused(
        json!({"definition": "order", "inptu": {}, "events": [{"name": "pay", "x": 1}, 7]}),
        422,
        "invalid",
    )
    .await;
    let paths: Vec<_> =
        document["problems"].as_array().unwrap().iter().map(|problem| problem["path"].clone()).collect();
    assert_eq!(paths, ["events[0].x", "events[1]", "inptu"]);
}

#[tokio::test]
async fn start_array_has_ordered_verdicts() {
    let bench = Bench::with_order().await;
    let starts = json!([
        {"definition": "order", "execution_id": "o-1"},
        {"definition": "nothing"},
        {"definition": "order", "execution_id": "o-1"},
        {"definition": "order", "execution_id": "o-1", "input": {"other": true}},
        {"definition": "order", "wrong": 1},
    ]);
    let answer = bench.post("/v1/executions", &starts).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let items = answer.json()["items"].clone();
    assert_eq!(items[0]["execution_id"], "o-1");
    assert_eq!(items[1]["problem"]["status"], 404);
    assert_eq!(items[2]["execution_id"], "o-1");
    assert_eq!(items[3]["problem"]["status"], 409);
    assert_eq!(items[4]["problem"]["problems"][0]["path"], "items[4].wrong");
    let again = bench.post("/v1/executions", &json!([{"definition": "order", "execution_id": "o-1"}])).await;
    assert_eq!(again.status, 200);
}

#[tokio::test]
async fn past_state_is_folded_from_log() {
    let bench = Bench::with_order().await;
    bench.start("o-1").await;
    bench.post("/v1/executions/o-1/events", &json!({"name": "pay", "payload": {"amount": 3}})).await;
    bench.decide("o-1").await;
    let first = bench.get("/v1/executions/o-1?at_seq=1").await.json();
    assert_eq!((&first["state"], &first["seq"]), (&json!("received"), &json!(1)));
    assert_eq!(first["context"], json!({"total": 10}));
    let second = bench.get("/v1/executions/o-1?at_seq=2").await.json();
    assert_eq!((&second["state"], &second["context"]["paid"]), (&json!("paid"), &json!(3)));
    bench.get("/v1/executions/o-1?at_seq=3").await.problem(404, "not-found");
    for wrong in ["at_seq=0", "at_seq=x", "at=yesterday", "at_seq=1&at=2026-01-01T00:00:00Z"] {
        bench.get(&format!("/v1/executions/o-1?{wrong}")).await.problem(422, "invalid");
    }
    let at = second["updated_at"].as_str().unwrap();
    assert_eq!(bench.get(&format!("/v1/executions/o-1?at={at}")).await.json()["state"], "paid");
    bench.get("/v1/executions/o-1?at=2020-01-01T00:00:00.000Z").await.problem(404, "not-found");
    let later = bench.get("/v1/executions/o-1?at=2999-01-01T00:00:00%2B01:00").await.json();
    assert_eq!(later["seq"], 2);
}

#[tokio::test]
async fn execution_timers_and_actions_are_listed() {
    let bench = Bench::with_order().await;
    bench.start("o-1").await;
    let timers = bench.get("/v1/executions/o-1/timers").await.json();
    assert_eq!(
        (&timers["items"][0]["send"], &timers["items"][0]["armed_seq"]),
        (&json!("expire"), &json!(1))
    );
    assert_eq!(
        bench.get("/v1/executions/o-1/actions").await.json(),
        json!({"items": [], "next_cursor": null})
    );
    for what in ["history", "actions", "timers", "tail"] {
        bench.get(&format!("/v1/executions/none/{what}")).await.problem(404, "not-found");
    }
    bench.get("/v1/executions/none").await.problem(404, "not-found");
    bench.get("/v1/executions/not%20an%20id").await.problem(404, "not-found");
}
