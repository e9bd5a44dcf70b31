//! Deliberately slow clients: each holds a connection for a bounded time only.

use std::time::{Duration, Instant};

use millstream_ingress::IngressOptions;

use crate::bench::open_options;
use crate::wire::serve;

/// The pace of a slow client: far shorter than any timeout of these tests.
const PACE: Duration = Duration::from_millis(10);
/// Longer than every timeout of these tests, shorter than those of production.
const BOUND: Duration = Duration::from_secs(10);

fn impatient() -> IngressOptions {
    let mut options = open_options();
    options.limits.head_timeout = Duration::from_millis(200);
    options.limits.body_timeout = Duration::from_millis(200);
    options.limits.stall_timeout = Duration::from_millis(200);
    options
}

#[tokio::test]
async fn slow_header_times_out() {
    let door = serve(impatient()).await;
    let mut wire = door.connect().await;
    let begun = Instant::now();
    wire.send("GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: ").await;
    let answer = wire.trickle("y", PACE, BOUND).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(begun.elapsed() < BOUND, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn slow_body_is_408() {
    let door = serve(impatient()).await;
    door.order("o-1").await;
    for framing in ["content-length: 100000", "transfer-encoding: chunked"] {
        let mut wire = door.connect().await;
        wire.send(&format!(
            "POST /v1/executions/o-1/events HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             {framing}\r\n\r\n"
        ))
        .await;
        let piece = if framing.contains("chunked") { "1\r\n \r\n" } else { " " };
        let answer = wire.trickle(piece, PACE, BOUND).await;
        assert!(answer.starts_with("HTTP/1.1 408"), "{framing}: {answer}");
        assert!(answer.to_lowercase().contains("connection: close"), "{framing}: {answer}");
    }
}

#[tokio::test]
async fn silent_connection_is_closed() {
    let door = serve(impatient()).await;
    let mut silent = door.connect().await;
    assert_eq!(silent.rest().await, "");
    let mut kept = door.connect().await;
    kept.send("GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    assert!(kept.until("}").await.starts_with("HTTP/1.1 200"));
    assert_eq!(kept.rest().await, "");
}

/// It sends more and more requests and reads no answer, until its receive buffer and our send buffer are
/// full.
#[tokio::test]
async fn pipelining_client_without_reads_is_closed() {
    let door = serve(impatient()).await;
    let mut wire = door.connect().await;
    let many = "GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(500);
    assert!(wire.is_cut_off_while_sending(&many, BOUND).await, "the connection is still open");
}

#[tokio::test]
async fn silent_connections_free_their_places() {
    let mut options = impatient();
    options.limits.connections = 20;
    let door = serve(options).await;
    let mut crowd = Vec::new();
    for _ in 0..20 {
        let mut wire = door.connect().await;
        wire.send("GET /healthz HTTP/1.1\r\nhost").await;
        crowd.push(wire);
    }
    let answer = door.request("GET", "/healthz", "", "").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}
