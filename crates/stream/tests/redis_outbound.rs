//! Entries for others, on a real server: in order, trimmed, all or none.

#![expect(clippy::unwrap_used, reason = "a panic is how a test says that it failed")]

use std::sync::Arc;

use millstream_stream::doorbell::StreamCare;
use millstream_stream::outbound::{Entry, Outbound};
use millstream_stream::{RedisOptions, RedisStream, StreamError};
use millstream_testkit::redis::{TestRedis, server};

async fn open() -> (TestRedis, Arc<RedisStream>) {
    let server = server().await;
    let stream = RedisStream::connect(&server.url, RedisOptions::default()).unwrap();
    (server, stream)
}

fn entries(range: std::ops::Range<usize>, data: &str) -> Vec<Entry> {
    range.map(|n| Entry(vec![("id", n.to_string()), ("data", data.to_owned())])).collect()
}

async fn ids(server: &TestRedis) -> Vec<String> {
    server.entries("bus").await.iter().map(|fields| fields["id"].clone()).collect()
}

#[tokio::test]
async fn entries_are_appended_in_order_and_the_oldest_go() {
    let (server, stream) = open().await;
    stream.append("bus", &[], 10).await.unwrap();
    stream.append("bus", &entries(0..300, "{}"), 1_000).await.unwrap();
    stream.append("bus", &entries(300..600, "{}"), 1_000).await.unwrap();
    let all: Vec<String> = (0..600).map(|n| n.to_string()).collect();
    assert_eq!(ids(&server).await, all);
    stream.append("bus", &entries(600..700, "{}"), 100).await.unwrap();
    let left = ids(&server).await;
    assert!((100..400).contains(&left.len()), "{}", left.len());
    assert_eq!(left.last().unwrap(), "699");
}

#[tokio::test]
async fn a_server_that_is_full_takes_all_or_none() {
    let (server, stream) = open().await;
    stream.append("bus", &entries(0..5, "{}"), 1_000).await.unwrap();
    server.set("maxmemory", "1").await;
    let full = stream.append("bus", &entries(5..10, "{}"), 1_000).await.unwrap_err();
    assert!(matches!(&full, StreamError::Unavailable(error) if error.contains("maxmemory")), "{full}");
    server.set("maxmemory", "0").await;
    assert_eq!(ids(&server).await.len(), 5);
    stream.append("bus", &entries(5..10, "{}"), 1_000).await.unwrap();
    assert_eq!(ids(&server).await.len(), 10);
}

#[tokio::test]
async fn a_key_that_is_something_else_is_an_error() {
    let (_server, stream) = open().await;
    let generation = stream.generation().await.unwrap();
    let taken = stream.append("millstream:generation", &entries(0..2, "{}"), 10).await.unwrap_err();
    assert!(taken.to_string().contains("WRONGTYPE"), "{taken}");
    assert_eq!(stream.generation().await.unwrap(), generation);
}

#[tokio::test]
async fn a_server_that_is_away_is_unavailable_and_then_back() {
    let (mut server, stream) = open().await;
    stream.append("bus", &entries(0..1, "{}"), 10).await.unwrap();
    server.kill();
    assert!(matches!(stream.append("bus", &entries(1..2, "{}"), 10).await, Err(StreamError::Unavailable(_))));
    server.start().await;
    stream.append("bus", &entries(1..2, "{}"), 10).await.unwrap();
    assert_eq!(ids(&server).await, ["1"]);
}
