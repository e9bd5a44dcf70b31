//! One port for HTTP/1.1 and HTTP/2, with slow and misbehaving clients of either.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, StatusCode, Version};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::bench::open_options;
use crate::wire::{Served, serve};

async fn get(door: &Served, path: &str, host: &str) -> (StatusCode, Version) {
    let stream = TcpStream::connect(door.address).await.unwrap();
    let (mut sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::get(format!("http://{host}{path}")).body(Body::empty()).unwrap();
    let answer = sender.send_request(request).await.unwrap();
    (answer.status(), answer.version())
}

#[tokio::test]
async fn one_port_serves_http1_and_http2() {
    let door = serve(open_options()).await;
    assert_eq!(get(&door, "/healthz", "localhost").await, (StatusCode::OK, Version::HTTP_2));
    let answer = door.request("GET", "/healthz", "", "").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(get(&door, "/v1/nothing", "localhost").await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn foreign_host_is_rejected_over_http1_and_http2() {
    let door = serve(open_options()).await;
    assert_eq!(get(&door, "/v1/graphs", "evil.example").await.0, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn incomplete_preface_times_out() {
    let mut options = open_options();
    options.limits.head_timeout = Duration::from_millis(100);
    let door = serve(options).await;
    for beginning in ["", "PRI * HT", "GET /healthz"] {
        let mut wire = door.connect().await;
        wire.send(beginning).await;
        let answer = wire.rest().await;
        assert!(!answer.contains("200"), "{beginning:?}: {answer}");
    }
}

#[tokio::test]
async fn silent_connection_does_not_block_drain() {
    let door = serve(open_options()).await;
    let mut silent = door.connect().await;
    let answer = door.request("GET", "/healthz", "", "").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    door.shutdown.cancel();
    silent.rest().await;
    let ended = tokio::time::timeout(Duration::from_secs(10), door.ended).await;
    ended.expect("the drain did not end").unwrap().unwrap();
}

#[tokio::test]
async fn drain_sends_goaway_to_idle_client() {
    let door = serve(open_options()).await;
    let stream = TcpStream::connect(door.address).await.unwrap();
    let (mut sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = Request::get("http://localhost/healthz").body(Body::empty()).unwrap();
    assert_eq!(sender.send_request(request).await.unwrap().status(), StatusCode::OK);
    door.shutdown.cancel();
    let ended = tokio::time::timeout(Duration::from_secs(10), door.ended).await;
    ended.expect("the drain did not end").unwrap().unwrap();
    drop(sender);
    connection.await.unwrap().unwrap();
}

#[tokio::test]
async fn unanswered_ping_closes_connection() {
    let mut options = open_options();
    options.limits.head_timeout = Duration::from_millis(100);
    options.limits.stall_timeout = Duration::from_millis(100);
    let door = serve(options).await;
    let mut mute = door.connect().await;
    // A preface and empty settings, and then silence.
    mute.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await;
    mute.rest().await;
}

#[tokio::test]
async fn http2_settings_limit_concurrent_streams() {
    const PREFACE_AND_SETTINGS: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    const SETTINGS: u8 = 4;
    const MAX_CONCURRENT_STREAMS: u16 = 3;
    let mut options = open_options();
    options.limits.streams_per_connection = 7;
    let door = serve(options).await;
    let mut stream = TcpStream::connect(door.address).await.unwrap();
    stream.write_all(PREFACE_AND_SETTINGS).await.unwrap();
    let mut head = [0; 9];
    stream.read_exact(&mut head).await.unwrap();
    let [high, middle, low, kind, ..] = head;
    assert_eq!(kind, SETTINGS);
    let mut settings = vec![0; u32::from_be_bytes([0, high, middle, low]).try_into().unwrap()];
    stream.read_exact(&mut settings).await.unwrap();
    let mut settings = settings
        .as_chunks::<6>()
        .0
        .iter()
        .map(|[id @ .., a, b, c, d]| (u16::from_be_bytes(*id), u32::from_be_bytes([*a, *b, *c, *d])));
    assert_eq!(settings.find(|(id, _)| *id == MAX_CONCURRENT_STREAMS), Some((MAX_CONCURRENT_STREAMS, 7)));
}
