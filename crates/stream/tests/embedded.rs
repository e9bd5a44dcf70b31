//! The embedded backend passes the suite, and keeps its additional guarantees.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use millstream_core::entropy::Entropy;
use millstream_core::id::{ExecutionId, ExecutionKey, TenantId, WorkerId};
use millstream_core::lane::Lane;
use millstream_stream::conformance::Bench;
use millstream_stream::doorbell::Bell;
use millstream_stream::{EmbeddedStream, Streams};

#[derive(Debug, Default)]
struct Counter(AtomicU64);

impl Entropy for Counter {
    fn next_u64(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

fn fresh() -> Bench {
    Bench::new(Streams::of(EmbeddedStream::new(&Counter::default())))
}

millstream_stream::stream_conformance_tests!(fresh());

#[tokio::test]
async fn every_start_is_another_generation() {
    let entropy = Counter::default();
    let (first, second) =
        (Streams::of(EmbeddedStream::new(&entropy)), Streams::of(EmbeddedStream::new(&entropy)));
    assert_ne!(first.care.generation().await.unwrap(), second.care.generation().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn idle_times_and_locks_follow_the_held_clock() {
    let streams = fresh().streams;
    let worker = WorkerId::parse("w").unwrap();
    let execution =
        ExecutionKey { tenant: TenantId::default_tenant(), execution: ExecutionId::parse("x").unwrap() };
    let lanes: Vec<Lane> = Lane::all().collect();
    let mut reader = streams.bells.reader(&worker, &lanes).await.unwrap();
    assert!(reader.read(1, Duration::from_secs(3600)).await.unwrap().is_empty());
    streams.bells.publish(&[Bell::Mailbox(execution.clone())]).await.unwrap();
    assert_eq!(reader.read(1, Duration::ZERO).await.unwrap().len(), 1);
    let token = millstream_stream::locks::LockToken("a".to_owned());
    let other = millstream_stream::locks::LockToken("b".to_owned());
    let (ttl, keys) = (Duration::from_secs(30), [execution]);
    assert_eq!(streams.locks.acquire(&keys, &token, ttl).await.unwrap(), [true]);
    tokio::time::advance(Duration::from_secs(29)).await;
    assert!(streams.bells.reclaim(&worker, ttl, 10).await.unwrap().is_empty());
    assert_eq!(streams.locks.acquire(&keys, &other, ttl).await.unwrap(), [false]);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(streams.bells.reclaim(&worker, ttl, 10).await.unwrap().len(), 1);
    assert_eq!(streams.locks.acquire(&keys, &other, ttl).await.unwrap(), [true]);
}
