//! Graceful shutdown.

use std::sync::Arc;
use std::time::Duration;

use millstream_ingress::IngressDeps;
use millstream_testkit::eventually;

use crate::bench::{deps, open_options};
use crate::faulty_backends::{FaultyBells, FaultyLog};
use crate::wire::{serve, serve_on};

async fn ended(door: crate::wire::Served) {
    let ended = tokio::time::timeout(Duration::from_secs(10), door.ended).await;
    ended.expect("the drain did not end").unwrap().unwrap();
}

#[tokio::test]
async fn idle_ingress_drains_immediately() {
    let door = serve(open_options()).await;
    let mut idle = door.connect().await;
    idle.send("GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    idle.until("}").await;
    door.shutdown.cancel();
    assert_eq!(idle.rest().await, "");
    ended(door).await;
}

#[tokio::test]
async fn drain_finishes_request_in_flight() {
    let plain = deps();
    let log = Arc::new(FaultyLog::over(plain.stores.events.clone()));
    let bells = Arc::new(FaultyBells::default());
    let mut slow: IngressDeps = plain;
    slow.stores.events = log.clone();
    slow.streams.bells = bells.clone();
    let door = serve_on(slow, open_options()).await;
    door.order("o-1").await;
    log.turns.forget_permits(usize::MAX);
    let mut wire = door.connect().await;
    let body = "{\"name\":\"note\"}";
    wire.send(&format!(
        "POST /v1/executions/o-1/events HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    ))
    .await;
    eventually(Duration::from_secs(10), || async {
        let batches = log.batches.lock().unwrap().len();
        if batches == 2 { Ok(()) } else { Err(batches) }
    })
    .await;
    door.shutdown.cancel();
    log.turns.add_permits(10);
    let answer = wire.rest().await;
    assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
    ended(door).await;
    assert_eq!(bells.rung.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn drain_ends_readiness_first() {
    let mut options = open_options();
    options.drain_delay = Duration::from_secs(2);
    let door = serve(options).await;
    assert!(door.request("GET", "/readyz", "", "").await.starts_with("HTTP/1.1 200"));
    door.shutdown.cancel();
    let red = door.request("GET", "/readyz", "", "").await;
    assert!(red.starts_with("HTTP/1.1 503") && red.contains("draining"), "{red}");
    ended(door).await;
}

#[tokio::test]
async fn tails_and_waits_do_not_block_drain() {
    let door = serve(open_options()).await;
    door.order("o-1").await;
    let mut tail = door.connect().await;
    tail.send("GET /v1/executions/o-1/tail HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    tail.until("id: 1").await;
    let mut wait = door.connect().await;
    let body = "{\"name\":\"note\"}";
    wait.send(&format!(
        "POST /v1/executions/o-1/events HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         prefer: wait=60\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    ))
    .await;
    eventually(Duration::from_secs(10), || async {
        let events = door.request("GET", "/v1/events?status=pending", "", "").await;
        if events.contains("\"note\"") { Ok(()) } else { Err(events) }
    })
    .await;
    door.shutdown.cancel();
    assert!(wait.rest().await.starts_with("HTTP/1.1 202"));
    tail.rest().await;
    ended(door).await;
}

#[tokio::test]
async fn drain_deadline_closes_connections() {
    let mut options = open_options();
    options.drain_deadline = Duration::from_millis(200);
    let plain = deps();
    let log = Arc::new(FaultyLog::over(plain.stores.events.clone()));
    let mut stuck = plain;
    stuck.stores.events = log.clone();
    let door = serve_on(stuck, options).await;
    door.order("o-1").await;
    let mut wire = door.connect().await;
    wire.send(
        "POST /v1/executions/o-1/events HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: 99\r\n\r\n{",
    )
    .await;
    door.shutdown.cancel();
    assert!(!wire.rest().await.contains("202"));
    ended(door).await;
}
