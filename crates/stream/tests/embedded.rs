//! The embedded backend passes the suite, and keeps its additional guarantees.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use millstream_model::entropy::Entropy;
use millstream_model::id::{ExecutionId, ExecutionKey, TenantId, WorkerId};
use millstream_model::lane::Lane;
use millstream_stream::doorbell::Doorbell;
use millstream_stream::{EmbeddedStream, StreamHandles};
use millstream_stream_conformance::StreamFixture;

#[derive(Debug, Default)]
struct CountingEntropy(AtomicU64);

impl Entropy for CountingEntropy {
    fn next_u64(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

fn fresh() -> StreamFixture {
    StreamFixture::new(StreamHandles::from_backend(EmbeddedStream::new(&CountingEntropy::default())))
}

millstream_stream_conformance::stream_conformance_tests!(fresh());

#[tokio::test]
async fn embedded_start_is_new_generation() {
    let entropy = CountingEntropy::default();
    let (first, second) = (
        StreamHandles::from_backend(EmbeddedStream::new(&entropy)),
        StreamHandles::from_backend(EmbeddedStream::new(&entropy)),
    );
    assert_ne!(first.care.ensure_generation().await.unwrap(), second.care.ensure_generation().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn embedded_stream_follows_paused_clock() {
    let streams = fresh().streams;
    let worker = WorkerId::parse("w").unwrap();
    let execution =
        ExecutionKey { tenant: TenantId::default_tenant(), execution: ExecutionId::parse("x").unwrap() };
    let lanes: Vec<Lane> = Lane::all().collect();
    let mut reader = streams.bells.open_reader(&worker, &lanes).await.unwrap();
    assert!(reader.read_deliveries(1, Duration::from_secs(3600)).await.unwrap().is_empty());
    streams.bells.publish_bells(&[Doorbell::Mailbox(execution.clone())]).await.unwrap();
    assert_eq!(reader.read_deliveries(1, Duration::ZERO).await.unwrap().len(), 1);
    let token = millstream_stream::locks::LockToken("a".to_owned());
    let other = millstream_stream::locks::LockToken("b".to_owned());
    let (ttl, keys) = (Duration::from_secs(30), [execution]);
    assert_eq!(streams.locks.acquire_locks(&keys, &token, ttl).await.unwrap(), [true]);
    tokio::time::advance(Duration::from_secs(29)).await;
    assert!(streams.bells.reclaim_idle(&worker, ttl, 10).await.unwrap().is_empty());
    assert_eq!(streams.locks.acquire_locks(&keys, &other, ttl).await.unwrap(), [false]);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(streams.bells.reclaim_idle(&worker, ttl, 10).await.unwrap().len(), 1);
    assert_eq!(streams.locks.acquire_locks(&keys, &other, ttl).await.unwrap(), [true]);
}
