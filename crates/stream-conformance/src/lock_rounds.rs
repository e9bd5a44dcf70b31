//! Cases of locks under contention.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::fixture::{HOUR, StreamFixture, execution, tenant_of_lane, token};

const TASKS: usize = 8;
const ROUNDS: usize = 1_000;
const KEYS: usize = 4;

pub async fn contended_lock_has_one_holder(bench: StreamFixture) {
    let holders: Arc<Vec<AtomicUsize>> = Arc::new((0..KEYS).map(|_| AtomicUsize::new(0)).collect());
    let taken = Arc::new(AtomicUsize::new(0));
    let busy = Arc::new(AtomicUsize::new(0));
    let mut tasks = Vec::new();
    for task in 0..TASKS {
        let (bench, holders, taken, busy) = (bench.clone(), holders.clone(), taken.clone(), busy.clone());
        tasks.push(tokio::spawn(async move {
            for round in 0..ROUNDS {
                let index = (task + round * 7) % KEYS;
                let key = [execution(&tenant_of_lane(0), index)];
                let token = token(&format!("{task}/{round}"));
                if bench.streams.locks.acquire_locks(&key, &token, HOUR).await.unwrap() == [true] {
                    assert_eq!(holders[index].fetch_add(1, Ordering::SeqCst), 0, "two holders");
                    tokio::task::yield_now().await;
                    holders[index].fetch_sub(1, Ordering::SeqCst);
                    bench.streams.locks.release_locks(&key, &token).await.unwrap();
                    taken.fetch_add(1, Ordering::Relaxed);
                } else {
                    busy.fetch_add(1, Ordering::Relaxed);
                }
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let (taken, busy) = (taken.load(Ordering::Relaxed), busy.load(Ordering::Relaxed));
    assert_eq!(taken + busy, TASKS * ROUNDS);
    assert!(taken >= ROUNDS, "taken only {taken} times: nothing was tried");
}

pub async fn large_lock_batch_is_atomic(bench: StreamFixture) {
    let keys: Vec<_> =
        (0..3_000).map(|n| execution(&tenant_of_lane(u8::try_from(n % 2).unwrap()), n)).collect();
    let all = |answers: Vec<bool>| answers.len() == keys.len() && answers.into_iter().all(|held| held);
    assert!(all(bench.streams.locks.acquire_locks(&keys, &token("a"), HOUR).await.unwrap()));
    assert!(all(bench.streams.locks.extend_locks(&keys, &token("a"), HOUR).await.unwrap()));
    bench.streams.locks.release_locks(&keys, &token("a")).await.unwrap();
    assert!(all(bench.streams.locks.acquire_locks(&keys, &token("b"), HOUR).await.unwrap()));
}
