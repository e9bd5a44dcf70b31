//! `Prefer: wait`, `until=applied` and `mode: sync`.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::bench::{Bench, ORDER, header, open_options, post, yaml};

fn pay(prefer: &str) -> axum::http::Request<axum::body::Body> {
    let body = json!({"name": "pay", "payload": {"amount": 5}});
    header(post("/v1/executions/o-1/events", &body), "prefer", prefer)
}

/// Decides the order as soon as one of its events is pending.
async fn decide_when_pending(bench: &Bench) {
    millstream_testkit::eventually(Duration::from_secs(20), || async {
        let pending = bench.get("/v1/events?execution_id=o-1&status=pending").await.json();
        // At the limit of requests in flight the read itself may be rejected.
        if pending["items"].as_array().is_none_or(Vec::is_empty) { Err(pending) } else { Ok(()) }
    })
    .await;
    bench.decide("o-1").await;
}

#[tokio::test]
async fn wait_returns_200_for_final_event() {
    let bench = Bench::with_order().await;
    bench.start("o-1").await;
    let begun = Instant::now();
    let (answer, ()) = tokio::join!(bench.send(pay("wait=20")), decide_when_pending(&bench));
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(begun.elapsed() < Duration::from_secs(15), "the wait did not end");
    let event = answer.json();
    assert_eq!((&event["status"], &event["seq"]), (&json!("completed"), &json!(2)));
    assert_eq!(answer.header("preference-applied"), "wait=20");
    assert!(answer.header("location").starts_with("/v1/events/"));
}

#[tokio::test]
async fn rejected_event_ends_wait() {
    let bench = Bench::with_order().await;
    bench.start("o-1").await;
    let expire = header(post("/v1/executions/o-1/events", &json!({"name": "expire"})), "prefer", "wait=20");
    let (answer, ()) = tokio::join!(bench.send(expire), decide_when_pending(&bench));
    assert_eq!((answer.status.as_u16(), &answer.json()["status"]), (200, &json!("rejected")));
}

#[tokio::test]
async fn event_wait_timeout_is_202() {
    let bench = Bench::with_order().await;
    bench.start("o-1").await;
    let answer = bench.send(pay("wait=0.05")).await;
    assert_eq!((answer.status.as_u16(), &answer.json()["status"]), (202, &json!("pending")));
    // A deferred event is not final: the wait lasts until its timeout.
    let bench = Bench::with_order().await;
    bench.start("o-1").await;
    let ship = header(post("/v1/executions/o-1/events", &json!({"name": "ship"})), "prefer", "wait=0.5");
    let (answer, ()) = tokio::join!(bench.send(ship), decide_when_pending(&bench));
    assert_eq!((answer.status.as_u16(), &answer.json()["status"]), (202, &json!("deferred")));
}

#[tokio::test]
async fn wait_until_applied_returns_after_transition() {
    let bench = Bench::with_order().await;
    bench.start("o-1").await;
    let (answer, ()) = tokio::join!(bench.send(pay("wait=20, until=applied")), decide_when_pending(&bench));
    assert_eq!((answer.status.as_u16(), &answer.json()["to_state"]), (200, &json!("paid")));
    assert_eq!(answer.header("preference-applied"), "wait=20, until=applied");
}

#[tokio::test]
async fn repeat_of_final_event_skips_wait() {
    let bench = Bench::with_order().await;
    bench.start("o-1").await;
    bench.send(header(pay("wait=0"), "idempotency-key", "k")).await;
    bench.decide("o-1").await;
    let answer = bench.send(header(pay("wait=60"), "idempotency-key", "k")).await;
    assert_eq!((answer.status.as_u16(), &answer.json()["status"]), (200, &json!("completed")));
}

#[tokio::test]
async fn invalid_prefer_header_is_400() {
    let bench = Bench::with_order().await;
    bench.start("o-1").await;
    bench.send(pay("wait=soon")).await.problem(400, "bad-request");
    assert_eq!(bench.get("/v1/events?status=pending").await.json()["items"], json!([]));
}

#[tokio::test]
async fn sync_definition_waits_by_default() {
    let bench = Bench::open();
    bench.send(yaml("/v1/definitions", &format!("mode: sync\n{ORDER}"))).await;
    bench.start("o-1").await;
    let plain = post("/v1/executions/o-1/events", &json!({"name": "note"}));
    let (answer, ()) = tokio::join!(bench.send(plain), decide_when_pending(&bench));
    assert_eq!((answer.status.as_u16(), &answer.json()["status"]), (200, &json!("completed")));
    assert_eq!(bench.send(pay("respond-async")).await.status, 202);
    // And back: executions of the next version do not wait.
    bench.send(yaml("/v1/definitions", ORDER)).await;
    bench.start("o-2").await;
    assert_eq!(bench.post("/v1/executions/o-2/events", &json!({"name": "note"})).await.status, 202);
}

#[tokio::test]
async fn start_waits_for_its_events() {
    let bench = Bench::with_order().await;
    let body = json!({"definition": "order", "execution_id": "o-1", "events": [{"name": "pay", "payload": {"amount": 2}}]});
    let start = header(post("/v1/executions", &body), "prefer", "wait=20");
    let (answer, ()) = tokio::join!(bench.send(start), decide_when_pending(&bench));
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!((&answer.json()["state"], &answer.json()["seq"]), (&json!("paid"), &json!(2)));
}

#[tokio::test]
async fn waiting_request_frees_its_slot() {
    let mut options = open_options();
    options.limits.in_flight = 1;
    let bench = Bench::with(options, |stores, streams| (stores, streams));
    bench.put_order().await;
    bench.start("o-1").await;
    // `decide_when_pending` sends requests of its own while the other one waits.
    let (answer, ()) = tokio::join!(bench.send(pay("wait=20")), decide_when_pending(&bench));
    assert_eq!(answer.status, 200, "{answer:?}");
}

#[tokio::test]
async fn wait_beyond_limit_is_202() {
    let mut options = open_options();
    options.limits.waits = 0;
    let bench = Bench::with(options, |stores, streams| (stores, streams));
    bench.put_order().await;
    bench.start("o-1").await;
    let answer = bench.send(pay("wait=60")).await;
    assert_eq!((answer.status.as_u16(), &answer.json()["status"]), (202, &json!("pending")));
}

#[tokio::test]
async fn drain_ends_waits_immediately() {
    let bench = Bench::with_order().await;
    bench.start("o-1").await;
    bench.draining.cancel();
    let answer: Value = bench.send(pay("wait=60")).await.json();
    assert_eq!(answer["status"], "pending");
}
