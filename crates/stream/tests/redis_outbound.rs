//! Outbound entries on a real server: in order, trimmed, all or none.

#![expect(clippy::unwrap_used, reason = "a panic is how a test says that it failed")]

use std::sync::Arc;

use millstream_stream::doorbell::StreamMaintenance;
use millstream_stream::outbound::{OutboundEntry, OutboundStream};
use millstream_stream::{RedisOptions, RedisStream, RedisTls, StreamError};
use millstream_testkit::TestCa;
use millstream_testkit::redis::{TestRedis, private_redis, server_with_tls};

async fn open() -> (TestRedis, Arc<RedisStream>) {
    let server = private_redis().await;
    let stream = RedisStream::connect(&server.url, RedisOptions::default()).unwrap();
    (server, stream)
}

fn entries(range: std::ops::Range<usize>, data: &str) -> Vec<OutboundEntry> {
    range.map(|n| OutboundEntry(vec![("id", n.to_string()), ("data", data.to_owned())])).collect()
}

async fn ids(server: &TestRedis) -> Vec<String> {
    server.stream_entries("bus").await.iter().map(|fields| fields["id"].clone()).collect()
}

#[tokio::test]
async fn outbound_entries_are_ordered_and_trimmed() {
    let (server, stream) = open().await;
    stream.append_entries("bus", &[], 10).await.unwrap();
    stream.append_entries("bus", &entries(0..300, "{}"), 1_000).await.unwrap();
    stream.append_entries("bus", &entries(300..600, "{}"), 1_000).await.unwrap();
    let all: Vec<String> = (0..600).map(|n| n.to_string()).collect();
    assert_eq!(ids(&server).await, all);
    stream.append_entries("bus", &entries(600..700, "{}"), 100).await.unwrap();
    let left = ids(&server).await;
    assert!((100..400).contains(&left.len()), "{}", left.len());
    assert_eq!(left.last().unwrap(), "699");
}

#[tokio::test]
async fn full_server_appends_all_or_none() {
    let (server, stream) = open().await;
    stream.append_entries("bus", &entries(0..5, "{}"), 1_000).await.unwrap();
    server.set_config("maxmemory", "1").await;
    let full = stream.append_entries("bus", &entries(5..10, "{}"), 1_000).await.unwrap_err();
    assert!(matches!(&full, StreamError::Unavailable(error) if error.contains("maxmemory")), "{full}");
    server.set_config("maxmemory", "0").await;
    assert_eq!(ids(&server).await.len(), 5);
    stream.append_entries("bus", &entries(5..10, "{}"), 1_000).await.unwrap();
    assert_eq!(ids(&server).await.len(), 10);
}

#[tokio::test]
async fn append_to_foreign_key_type_fails() {
    let (_server, stream) = open().await;
    let generation = stream.ensure_generation().await.unwrap();
    let taken = stream.append_entries("millstream:generation", &entries(0..2, "{}"), 10).await.unwrap_err();
    assert!(taken.to_string().contains("WRONGTYPE"), "{taken}");
    assert_eq!(stream.ensure_generation().await.unwrap(), generation);
}

#[tokio::test]
async fn outbound_recovers_with_server() {
    let (mut server, stream) = open().await;
    stream.append_entries("bus", &entries(0..1, "{}"), 10).await.unwrap();
    server.kill();
    assert!(matches!(
        stream.append_entries("bus", &entries(1..2, "{}"), 10).await,
        Err(StreamError::Unavailable(_))
    ));
    server.start().await;
    stream.append_entries("bus", &entries(1..2, "{}"), 10).await.unwrap();
    assert_eq!(ids(&server).await, ["1"]);
}

#[tokio::test]
async fn redis_tls_uses_ca_and_client_certificate() {
    let (ca, other) = (TestCa::new("private"), TestCa::new("other"));
    let server = server_with_tls(&ca).await;
    let identity = |ca: &TestCa| {
        let issued = ca.issue_certificate(&["engine"]);
        Some((issued.certificate.into_bytes(), issued.key.into_bytes()))
    };
    let pem = |ca: &TestCa| Some(ca.pem.clone().into_bytes());
    let good = RedisTls { ca: pem(&ca), identity: identity(&ca) };
    for (tls, is_served) in [
        (Some(good), true),
        (Some(RedisTls { ca: pem(&ca), identity: None }), false),
        (Some(RedisTls { ca: pem(&ca), identity: identity(&other) }), false),
        (Some(RedisTls { ca: pem(&other), identity: identity(&ca) }), false),
        (Some(RedisTls { ca: None, identity: identity(&ca) }), false),
        (None, false),
    ] {
        let options = RedisOptions { tls: tls.clone(), ..RedisOptions::default() };
        let stream = RedisStream::connect(&server.url, options).unwrap();
        let appended = stream.append_entries("bus", &entries(0..1, "{}"), 10).await;
        assert_eq!(appended.is_ok(), is_served, "{tls:?}: {appended:?}");
    }
    assert_eq!(ids(&server).await, ["0"]);
    let plain = server.url.replace("rediss://", "redis://");
    let options =
        RedisOptions { tls: Some(RedisTls { ca: pem(&ca), identity: None }), ..RedisOptions::default() };
    assert!(RedisStream::connect(&plain, options).is_err(), "a CA without TLS");
}
