//! Posting one event, reading it back, idempotency and the strict check.

use axum::http::Request;
use futures::future::join_all;
use serde_json::{Value, json};

use crate::bench::{Bench, header, post, with_type};

fn pay(amount: i64) -> Value {
    json!({"name": "pay", "payload": {"amount": amount}})
}

fn keyed(body: &Value, key: &str) -> Request<axum::body::Body> {
    header(post("/v1/executions/o-1/events", body), "idempotency-key", key)
}

#[tokio::test]
async fn event_is_202_with_location() {
    let bench = Bench::with_order().await;
    bench.start("o-1").await;
    let accepted = bench.post("/v1/executions/o-1/events", &pay(5)).await;
    assert_eq!(accepted.status, 202, "{accepted:?}");
    let body = accepted.json();
    assert_eq!((&body["execution_id"], &body["status"]), (&json!("o-1"), &json!("pending")));
    let location = format!("/v1/events/{}", body["event_id"].as_str().unwrap());
    assert_eq!(accepted.header("location"), location);

    let pending = bench.get(&location).await.json();
    assert_eq!((&pending["status"], &pending["seq"]), (&json!("pending"), &json!(null)));
    bench.decide("o-1").await;
    let event = bench.get(&location).await.json();
    assert_eq!((&event["status"], &event["seq"]), (&json!("completed"), &json!(2)));
    assert_eq!((&event["from_state"], &event["to_state"]), (&json!("received"), &json!("paid")));
    assert_eq!(event["payload"], json!({"amount": 5}));
}

#[tokio::test]
async fn event_payload_bytes_are_preserved() {
    let bench = Bench::with_order().await;
    bench.start("o-1").await;
    let body = r#"{"name":"note","payload":{"b":1.50,"a":"\u0000","n":123456789012345678901234567890}}"#;
    let accepted = bench.send(with_type("/v1/executions/o-1/events", "application/json", body)).await;
    let read = bench.get(accepted.header("location")).await.text;
    assert!(read.contains(r#"{"b":1.50,"a":"\u0000","n":123456789012345678901234567890}"#), "{read}");
}

#[tokio::test]
async fn repeated_key_returns_same_event() {
    let bench = Bench::with_order().await;
    bench.start("o-1").await;
    let first = bench.send(keyed(&pay(5), "k-1")).await.json();
    let again = bench.send(keyed(&pay(5), "k-1")).await;
    assert_eq!((again.status.as_u16(), again.json()), (202, first.clone()));
    bench.decide("o-1").await;
    let later = bench.send(keyed(&pay(5), "k-1")).await;
    assert_eq!(later.status, 202);
    assert_eq!(
        (&later.json()["event_id"], &later.json()["status"]),
        (&first["event_id"], &json!("completed"))
    );
    bench.send(keyed(&pay(6), "k-1")).await.problem(422, "idempotency-key-reused");
}

#[tokio::test]
async fn concurrent_posts_of_key_make_one_event() {
    let bench = Bench::with_order().await;
    bench.start("o-1").await;
    let answers = join_all((0..50).map(|_| bench.send(keyed(&pay(5), "same")))).await;
    let mut ids: Vec<String> = answers
        .iter()
        .map(|answer| {
            assert_eq!(answer.status, 202, "{answer:?}");
            answer.json()["event_id"].to_string()
        })
        .collect();
    ids.dedup();
    assert_eq!(ids.len(), 1);
    assert_eq!(bench.get("/v1/events?execution_id=o-1").await.json()["items"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn rejected_event_keeps_key_unused() {
    let bench = Bench::with_order().await;
    bench.send(keyed(&pay(5), "k-1")).await.problem(404, "not-found");
    bench.start("o-1").await;
    bench.send(keyed(&json!({"name": "nonsense"}), "k-1")).await.problem(422, "unknown-event");
    assert_eq!(bench.send(keyed(&pay(5), "k-1")).await.status, 202);
}

#[tokio::test]
async fn unknown_or_reserved_event_is_422() {
    let bench = Bench::with_order().await;
    bench.start("o-1").await;
    let typo = bench.post("/v1/executions/o-1/events", &json!({"name": "shipp"})).await;
    let document = typo.problem(422, "unknown-event");
    assert!(document["detail"].as_str().unwrap().contains("did you mean \"ship\"?"), "{document}");
    let reserved = bench.post("/v1/executions/o-1/events", &json!({"name": "millstream.cancel"})).await;
    reserved.problem(422, "unknown-event");
}

#[tokio::test]
async fn unhandled_event_is_rejected_by_decision() {
    let bench = Bench::with_order().await;
    bench.start("o-1").await;
    let accepted = bench.post("/v1/executions/o-1/events", &json!({"name": "expire"})).await;
    assert_eq!(accepted.status, 202);
    bench.decide("o-1").await;
    let event = bench.get(accepted.header("location")).await.json();
    assert_eq!(event["status"], "rejected");
    assert!(event["error"].is_string(), "{event}");
}

#[tokio::test]
async fn event_for_ended_execution_is_rejected_later() {
    let bench = Bench::with_order().await;
    bench.start("o-1").await;
    for body in [pay(1), json!({"name": "ship"}), json!({"name": "note"})] {
        assert_eq!(bench.post("/v1/executions/o-1/events", &body).await.status, 202);
    }
    bench.decide("o-1").await;
    let rejected = bench.get("/v1/events?execution_id=o-1&status=rejected").await.json();
    assert_eq!(rejected["items"][0]["error"], "execution ended");
}

#[tokio::test]
async fn strict_check_rejects_unhandled_event() {
    let bench = Bench::with_order().await;
    bench.start("o-1").await;
    let strict = |name: &str| {
        header(post("/v1/executions/o-1/events", &json!({"name": name})), "millstream-validate", "state")
    };
    bench.send(strict("expire")).await.problem(409, "conflict");
    assert_eq!(bench.send(strict("note")).await.status, 202);
    // An event is undecided now: the next state is unknown.
    assert_eq!(bench.send(strict("expire")).await.status, 202);
    bench.decide("o-1").await;
    bench.send(strict("expire")).await.problem(409, "conflict");
    let unknown = header(post("/v1/executions/o-1/events", &pay(1)), "millstream-validate", "everything");
    bench.send(unknown).await.problem(400, "bad-request");
}

#[tokio::test]
async fn invalid_event_request_lists_faults() {
    let bench = Bench::with_order().await;
    bench.start("o-1").await;
    let path = "/v1/executions/o-1/events";
    let document =
        bench.post(path, &json!({"name": "pay", "paylaod": {}, "when": 1})).await.problem(422, "invalid");
    let paths: Vec<_> =
        document["problems"].as_array().unwrap().iter().map(|problem| problem["path"].clone()).collect();
    assert_eq!(paths, ["paylaod", "when"]);
    bench.post(path, &json!({"payload": {}})).await.problem(422, "invalid");
    bench.post(path, &json!({"name": "Not A Name"})).await.problem(422, "invalid");
    bench.post(path, &json!(["name"])).await.problem(422, "invalid");
    bench.send(with_type(path, "application/json", "{\"name\":")).await.problem(400, "bad-request");
    bench.send(with_type(path, "application/json", "")).await.problem(400, "bad-request");
    bench.send(with_type(path, "text/plain", "{}")).await.problem(415, "unsupported-media-type");
    bench.send(Request::post(path).body("{}".into()).unwrap()).await.problem(415, "unsupported-media-type");
    bench.post(&format!("{path}?dry=1"), &pay(1)).await.problem(422, "invalid");
    let bad_key = header(post(path, &pay(1)), "idempotency-key", &"k".repeat(256));
    bench.send(bad_key).await.problem(400, "bad-request");
    assert_eq!(bench.get("/v1/events?execution_id=o-1").await.json()["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn event_payload_limit_is_exact() {
    let bench = Bench::with_order().await;
    bench.start("o-1").await;
    let of = |bytes: usize| json!({"name": "note", "payload": "x".repeat(bytes - 2)});
    assert_eq!(bench.post("/v1/executions/o-1/events", &of(256 * 1024)).await.status, 202);
    bench.post("/v1/executions/o-1/events", &of(256 * 1024 + 1)).await.problem(413, "too-large");
}

#[tokio::test]
async fn unknown_event_id_is_404() {
    let bench = Bench::with_order().await;
    bench.get("/v1/events/00000000-0000-7000-8000-000000000000").await.problem(404, "not-found");
    bench.get("/v1/events/not-an-id").await.problem(404, "not-found");
    bench.post("/v1/executions/none/events", &pay(1)).await.problem(404, "not-found");
    bench.post("/v1/executions/not%20an%20id/events", &pay(1)).await.problem(404, "not-found");
}

#[tokio::test]
async fn event_keeps_traceparent_of_caller() {
    use millstream_store::execution_store::{LoadRequest, LoadVerdict, MailboxLimits};
    let bench = Bench::with_order().await;
    bench.start("o-1").await;
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    bench.send(header(post("/v1/executions/o-1/events", &pay(1)), "traceparent", trace)).await;
    bench.send(header(post("/v1/executions/o-1/events", &pay(1)), "traceparent", "nonsense")).await;
    let wanted = LoadRequest { execution: crate::bench::key("o-1"), known: None };
    let loaded =
        bench.stores.executions.load_executions(&[wanted], MailboxLimits::default()).await.unwrap().pop();
    let Some(LoadVerdict::Found(loaded)) = loaded else { panic!("not found") };
    assert_eq!(loaded.mailbox[0].traceparent.as_deref(), Some(trace));
    let begun = loaded.mailbox[1].traceparent.as_deref().unwrap();
    assert!(begun.starts_with("00-") && begun.len() == trace.len() && begun != trace, "{begun}");
}
