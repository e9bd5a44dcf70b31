//! A repeat of an accepted request gets its original answer, whatever the checks say now.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};

use crate::bench::{Bench, ORDER, header, open_options, post, yaml};
use millstream_store::housekeeping::RetentionCutoffs;

const EVENTS: &str = "/v1/executions/o-1/events";

fn keyed(path: &str, body: &Value) -> Request<Body> {
    header(post(path, body), "idempotency-key", "k-1")
}

fn pay(amount: i32) -> Value {
    json!({"name": "pay", "payload": {"amount": amount}})
}

/// Ends `o-1` and removes it, as retention does.
async fn removed(bench: &Bench) {
    for event in [pay(1), json!({"name": "ship"})] {
        assert_eq!(bench.post(EVENTS, &event).await.status, 202);
    }
    bench.decide("o-1").await;
    let later = bench.clock.now().plus(Duration::from_secs(3600));
    assert_eq!(
        bench.stores.housekeeping.purge_executions(RetentionCutoffs::uniform(later), 10).await.unwrap(),
        1
    );
    bench.get("/v1/executions/o-1").await.problem(404, "not-found");
}

#[tokio::test]
async fn repeat_ignores_state_after_original() {
    let bench = Bench::with_order().await;
    bench.start("o-1").await;
    let strict = |body: &Value| header(keyed(EVENTS, body), "millstream-validate", "state");
    let first = bench.send(strict(&pay(1))).await;
    assert_eq!(first.status, 202, "{first:?}");
    bench.decide("o-1").await;
    let new = header(post(EVENTS, &pay(1)), "millstream-validate", "state");
    bench.send(new).await.problem(409, "conflict");

    let again = bench.send(strict(&pay(1))).await;
    assert_eq!((again.status.as_u16(), again.header("location")), (202, first.header("location")));
    assert_eq!(again.json()["event_id"], first.json()["event_id"]);
    assert_eq!(again.json()["status"], "completed");
    let waiting = header(strict(&pay(1)), "prefer", "wait=5");
    assert_eq!(bench.send(waiting).await.status, 200);
    bench.send(strict(&pay(2))).await.problem(422, "idempotency-key-reused");
}

#[tokio::test]
async fn repeated_cancel_is_same_event() {
    let bench = Bench::with_order().await;
    bench.start("o-1").await;
    let path = "/v1/executions/o-1/cancel";
    let first = bench.send(keyed(path, &json!({"reason": "x"}))).await;
    bench.decide("o-1").await;
    bench.post(path, &json!({"reason": "x"})).await.problem(409, "conflict");
    let again = bench.send(keyed(path, &json!({"reason": "x"}))).await;
    assert_eq!((again.status.as_u16(), &again.json()["status"]), (202, &json!("completed")), "{again:?}");
    assert_eq!(again.json()["event_id"], first.json()["event_id"]);
    bench.send(keyed(path, &json!({"reason": "y"}))).await.problem(422, "idempotency-key-reused");
}

#[tokio::test]
async fn repeat_after_retention_returns_known_status() {
    let bench = Bench::with_order().await;
    bench.start("o-1").await;
    let note = json!({"name": "note"});
    let first = bench.send(keyed(EVENTS, &note)).await.json();
    removed(&bench).await;
    bench.post(EVENTS, &note).await.problem(404, "not-found");
    let again = bench.send(keyed(EVENTS, &note)).await;
    assert_eq!(again.status, 202, "{again:?}");
    let known = json!({"event_id": first["event_id"], "execution_id": "o-1", "status": "completed"});
    assert_eq!(again.json(), known);
    // There is no outcome to wait for, so the request does not wait.
    let hurried = bench.send(header(keyed(EVENTS, &note), "prefer", "wait=60"));
    let hurried = tokio::time::timeout(Duration::from_secs(20), hurried).await.unwrap();
    assert_eq!((hurried.status.as_u16(), hurried.json()), (202, known.clone()));

    let item = |key: &str, name: &str| json!({"execution_id": "o-1", "name": name, "idempotency_key": key});
    let batch = json!([item("other", "note"), item("k-1", "note"), item("k-1", "pay")]);
    let items = bench.post("/v1/events", &batch).await.json();
    let kind = |at: usize| items["items"][at]["problem"]["type"].clone();
    assert_eq!(kind(0), "urn:millstream:problem:not-found");
    assert_eq!(items["items"][1], known);
    assert_eq!(kind(2), "urn:millstream:problem:idempotency-key-reused");
}

#[tokio::test]
async fn keyed_start_survives_retention() {
    let bench = Bench::with_order().await;
    let start = json!({"definition": "order", "execution_id": "o-1"});
    assert_eq!(bench.send(keyed("/v1/executions", &start)).await.status, 201);
    removed(&bench).await;
    let again = bench.send(keyed("/v1/executions", &start)).await;
    assert_eq!((again.status.as_u16(), again.header("location")), (202, "/v1/executions/o-1"), "{again:?}");
    assert_eq!(
        (&again.json()["execution_id"], &again.json()["status"]),
        (&json!("o-1"), &json!("completed"))
    );
    bench.get("/v1/executions/o-1").await.problem(404, "not-found");
    let other = json!({"definition": "order", "execution_id": "o-2"});
    bench.send(keyed("/v1/executions", &other)).await.problem(422, "idempotency-key-reused");
    // The id alone protects only while the execution exists.
    assert_eq!(bench.post("/v1/executions", &start).await.status, 201);
}

#[tokio::test]
async fn keyed_start_repeat_ignores_new_definition() {
    let bench = Bench::with_order().await;
    let start = json!({"definition": "order", "events": [{"name": "note"}]});
    let first = bench.send(keyed("/v1/executions", &start)).await;
    assert_eq!(first.status, 201, "{first:?}");
    let changed = ORDER.replace("      note: {}\n", "");
    assert_eq!(bench.send(yaml("/v1/definitions", &changed)).await.status, 201);
    bench.post("/v1/executions", &start).await.problem(422, "unknown-event");
    let again = bench.send(keyed("/v1/executions", &start)).await;
    assert_eq!((again.status.as_u16(), again.json()), (200, first.json()));
}

#[tokio::test]
async fn id_reused_by_other_process_is_reloaded() {
    let bench = Bench::with_order().await;
    let other = Bench::with(open_options(), |_, _| (bench.stores.clone(), bench.streams.clone()));
    bench.start("o-1").await;
    removed(&bench).await;
    let bill =
        "{name: bill, initial: open, states: {open: {on: {settle: {to: settled}}}, settled: {final: true}}}";
    assert_eq!(other.send(yaml("/v1/definitions", bill)).await.status, 201);
    let start = json!({"definition": "bill", "execution_id": "o-1"});
    assert_eq!(other.post("/v1/executions", &start).await.status, 201);
    let settle = bench.post(EVENTS, &json!({"name": "settle"})).await;
    assert_eq!(settle.status, 202, "the cached o-1 is the previous execution: {settle:?}");
}
