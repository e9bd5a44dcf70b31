//! `GET …/tail`: transitions as they happen.

use std::time::Duration;

use crate::bench::open_options;
use crate::wire::{Served, Wire, serve};

async fn tail(door: &Served, extra: &str) -> Wire {
    let mut wire = door.connect().await;
    wire.send(&format!("GET /v1/executions/o-1/tail HTTP/1.1\r\nhost: localhost\r\n{extra}\r\n")).await;
    wire
}

async fn post(door: &Served, body: &str) {
    let answer = door.json("/v1/executions/o-1/events", body).await;
    assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
}

#[tokio::test]
async fn tail_streams_transitions_then_end() {
    let door = serve(open_options()).await;
    door.order("o-1").await;
    let mut wire = tail(&door, "connection: close\r\n").await;
    let head = wire.until("\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("text/event-stream"), "{head}");
    let first = wire.until("\n\n").await;
    assert!(first.contains("event: transition") && first.contains("id: 1"), "{first}");
    assert!(first.contains("\"name\":\"millstream.start\""), "{first}");

    post(&door, r#"{"name":"pay","payload":{"amount":1}}"#).await;
    door.decide("o-1").await;
    let second = wire.until("\n\n").await;
    assert!(second.contains("id: 2") && second.contains("\"to_state\":\"paid\""), "{second}");

    post(&door, r#"{"name":"ship"}"#).await;
    door.decide("o-1").await;
    let last = wire.until("event: end").await;
    assert!(last.contains("id: 3"), "{last}");
    let end = wire.rest().await;
    assert!(end.contains("\"status\":\"completed\""), "{end}");
}

#[tokio::test]
async fn tail_resumes_after_last_event_id() {
    let door = serve(open_options()).await;
    door.order("o-1").await;
    for _ in 0..3 {
        post(&door, r#"{"name":"note"}"#).await;
    }
    door.decide("o-1").await;
    let mut wire = tail(&door, "last-event-id: 2\r\n").await;
    wire.until("\r\n\r\n").await;
    let next = wire.until("\n\n").await;
    assert!(next.contains("id: 3"), "{next}");
    let next = wire.until("\n\n").await;
    assert!(next.contains("id: 4"), "{next}");
}

#[tokio::test]
async fn ended_tail_answers_reconnect_with_204() {
    let door = serve(open_options()).await;
    door.order("o-1").await;
    post(&door, r#"{"name":"pay","payload":{"amount":1}}"#).await;
    post(&door, r#"{"name":"ship"}"#).await;
    door.decide("o-1").await;
    let resume = async |seq: u8| {
        let header = format!("last-event-id: {seq}\r\n");
        door.request("GET", "/v1/executions/o-1/tail", &header, "").await
    };
    let rest = resume(2).await;
    assert!(rest.contains("id: 3") && rest.contains("event: end"), "{rest}");
    let nothing = resume(3).await;
    assert!(nothing.starts_with("HTTP/1.1 204"), "{nothing}");
}

#[tokio::test]
async fn silent_tail_sends_keep_alive() {
    let mut options = open_options();
    options.keep_alive = Duration::from_millis(50);
    let door = serve(options).await;
    door.order("o-1").await;
    let mut wire = tail(&door, "").await;
    wire.until("\n\n").await;
    wire.until(": keep-alive").await;
    wire.until(": keep-alive").await;
}

#[tokio::test]
async fn tail_survives_lost_announcement() {
    let door = serve(open_options()).await;
    door.order("o-1").await;
    let mut wire = tail(&door, "").await;
    wire.until("id: 1").await;
    post(&door, r#"{"name":"note"}"#).await;
    // Decided by a worker whose announcements do not arrive here.
    let elsewhere = crate::bench::deps().streams;
    crate::bench::decide(&door.deps.stores, &elsewhere, &*door.deps.clock, "o-1").await;
    wire.until("id: 2").await;
}

#[tokio::test]
async fn open_tails_are_limited() {
    let mut options = open_options();
    options.limits.tails = 1;
    let door = serve(options).await;
    door.order("o-1").await;
    let mut first = tail(&door, "").await;
    first.until("id: 1").await;
    let refused = tail(&door, "connection: close\r\n").await.rest().await;
    assert!(refused.starts_with("HTTP/1.1 429") && refused.contains("retry-after"), "{refused}");
    drop(first);
    millstream_testkit::eventually(Duration::from_secs(10), || async {
        let mut wire = tail(&door, "").await;
        let head = wire.until("\r\n\r\n").await;
        if head.starts_with("HTTP/1.1 200") { Ok(()) } else { Err(head) }
    })
    .await;
}

#[tokio::test]
async fn invalid_last_event_id_is_rejected() {
    let door = serve(open_options()).await;
    door.order("o-1").await;
    let answer = door.request("GET", "/v1/executions/o-1/tail", "last-event-id: soon\r\n", "").await;
    assert!(answer.starts_with("HTTP/1.1 422") && answer.contains("Last-Event-ID"), "{answer}");
}
