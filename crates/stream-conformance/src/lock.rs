//! Cases of locks on executions, one rule at a time.

use std::time::{Duration, Instant};

use millstream_model::id::ExecutionKey;
use millstream_stream::locks::LockToken;

use crate::fixture::{HOUR, PATIENCE, StreamFixture, execution, tenant_of_lane, token};

fn keys(count: usize) -> Vec<ExecutionKey> {
    (0..count).map(|n| execution(&tenant_of_lane(u8::try_from(n % 3).unwrap()), n)).collect()
}

async fn acquire(bench: &StreamFixture, keys: &[ExecutionKey], who: &LockToken, ttl: Duration) -> Vec<bool> {
    bench.streams.locks.acquire_locks(keys, who, ttl).await.unwrap()
}

/// Polls until `who` acquires the lock; returns the waiting time.
async fn until_acquired(
    bench: &StreamFixture,
    key: &[ExecutionKey],
    who: &LockToken,
    since: Instant,
) -> Duration {
    while acquire(bench, key, who, HOUR).await != [true] {
        assert!(since.elapsed() < PATIENCE, "the lock never became free");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    since.elapsed()
}

pub async fn lock_has_one_holder(bench: StreamFixture) {
    let key = keys(1);
    assert_eq!(acquire(&bench, &key, &token("a"), HOUR).await, [true]);
    assert_eq!(acquire(&bench, &key, &token("b"), HOUR).await, [false]);
}

pub async fn lock_answers_follow_key_order(bench: StreamFixture) {
    let keys = keys(9);
    acquire(&bench, &[keys[1].clone(), keys[5].clone(), keys[6].clone()], &token("b"), HOUR).await;
    let expected: Vec<bool> = (0..9).map(|n| ![1, 5, 6].contains(&n)).collect();
    assert_eq!(acquire(&bench, &keys, &token("a"), HOUR).await, expected);
    assert_eq!(bench.streams.locks.extend_locks(&keys, &token("a"), HOUR).await.unwrap(), expected);
}

pub async fn holder_may_acquire_lock_again(bench: StreamFixture) {
    let keys = keys(2);
    let ttl = Duration::from_millis(500);
    let started = Instant::now();
    assert_eq!(acquire(&bench, &keys, &token("a"), ttl).await, [true, true]);
    // As after a lost answer. The repeated lock takes the new TTL; the other one expires.
    assert_eq!(acquire(&bench, &keys[..1], &token("a"), HOUR).await, [true]);
    until_acquired(&bench, &keys[1..], &token("b"), started).await;
    assert_eq!(acquire(&bench, &keys[..1], &token("b"), HOUR).await, [false]);
}

pub async fn lock_expires_with_its_ttl(bench: StreamFixture) {
    let key = keys(1);
    let ttl = Duration::from_millis(200);
    let started = Instant::now();
    acquire(&bench, &key, &token("a"), ttl).await;
    let waited = until_acquired(&bench, &key, &token("b"), started).await;
    assert!(waited >= ttl - Duration::from_millis(5), "free after {waited:?}");
    assert_eq!(bench.streams.locks.extend_locks(&key, &token("a"), HOUR).await.unwrap(), [false]);
}

pub async fn extended_lock_outlives_its_ttl(bench: StreamFixture) {
    let keys = keys(2);
    let ttl = Duration::from_millis(500);
    let started = Instant::now();
    assert_eq!(acquire(&bench, &keys, &token("a"), ttl).await, [true, true]);
    assert_eq!(bench.streams.locks.extend_locks(&keys[..1], &token("a"), HOUR).await.unwrap(), [true]);
    // The lock that was not extended expires, which shows that the time is over.
    until_acquired(&bench, &keys[1..], &token("b"), started).await;
    assert_eq!(acquire(&bench, &keys[..1], &token("b"), HOUR).await, [false]);
}

pub async fn only_holder_extends_lock(bench: StreamFixture) {
    let keys = keys(2);
    acquire(&bench, &keys[..1], &token("a"), HOUR).await;
    assert_eq!(bench.streams.locks.extend_locks(&keys, &token("b"), HOUR).await.unwrap(), [false, false]);
    assert_eq!(acquire(&bench, &keys[1..], &token("c"), HOUR).await, [true], "extending takes nothing");
}

pub async fn only_holder_releases_lock(bench: StreamFixture) {
    let key = keys(1);
    acquire(&bench, &key, &token("a"), HOUR).await;
    bench.streams.locks.release_locks(&key, &token("b")).await.unwrap();
    assert_eq!(acquire(&bench, &key, &token("b"), HOUR).await, [false]);
    bench.streams.locks.release_locks(&key, &token("a")).await.unwrap();
    assert_eq!(acquire(&bench, &key, &token("b"), HOUR).await, [true]);
}

pub async fn stale_token_cannot_release_lock(bench: StreamFixture) {
    let key = keys(1);
    acquire(&bench, &key, &token("paused"), Duration::from_millis(50)).await;
    until_acquired(&bench, &key, &token("next"), Instant::now()).await;
    bench.streams.locks.release_locks(&key, &token("paused")).await.unwrap();
    assert_eq!(bench.streams.locks.extend_locks(&key, &token("paused"), HOUR).await.unwrap(), [false]);
    assert_eq!(acquire(&bench, &key, &token("third"), HOUR).await, [false]);
    assert_eq!(bench.streams.locks.extend_locks(&key, &token("next"), HOUR).await.unwrap(), [true]);
}

pub async fn locks_are_separate_per_tenant(bench: StreamFixture) {
    let (one, two) = (execution(&tenant_of_lane(0), 1), execution(&tenant_of_lane(1), 1));
    assert_eq!(acquire(&bench, &[one], &token("a"), HOUR).await, [true]);
    assert_eq!(acquire(&bench, &[two], &token("b"), HOUR).await, [true]);
}

pub async fn empty_key_list_locks_nothing(bench: StreamFixture) {
    assert!(acquire(&bench, &[], &token("a"), HOUR).await.is_empty());
    assert!(bench.streams.locks.extend_locks(&[], &token("a"), HOUR).await.unwrap().is_empty());
    bench.streams.locks.release_locks(&[], &token("a")).await.unwrap();
}
