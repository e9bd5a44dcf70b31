//! Workers, and leases on duties.

use std::time::Duration;

use millstream_model::time::Timestamp;
use millstream_store::worker_store::WorkerHeartbeat;

use crate::ConformanceBench;
use crate::fixture::{HOUR, LONG, SHORT, name, worker};

fn beat(id: &str, in_flight: i32) -> WorkerHeartbeat {
    WorkerHeartbeat {
        worker: worker(id),
        started_at: Timestamp::from_millis(5),
        lanes: vec![0, 7, 15],
        in_flight,
        version: "0.1.0".to_owned(),
        calls: vec![name("charge"), name("refund")],
    }
}

async fn take(bench: &ConformanceBench, by: &str, ttl: Duration) -> Option<Timestamp> {
    bench.stores.workers.take_duty("sweep", &worker(by), ttl, bench.now().await).await.unwrap()
}

pub async fn last_worker_heartbeat_counts(bench: ConformanceBench) {
    let store = &bench.stores.workers;
    let now = bench.now().await;
    store.record_worker_heartbeat(&beat("w2", 1), now).await.unwrap();
    store.record_worker_heartbeat(&beat("w1", 0), now.minus(HOUR)).await.unwrap();
    store.record_worker_heartbeat(&beat("w2", 4), now.plus(SHORT)).await.unwrap();
    let all = store.list_workers(Timestamp::EPOCH).await.unwrap();
    let ids: Vec<_> = all.iter().map(|view| view.beat.worker.as_str()).collect();
    assert_eq!(ids, ["w1", "w2"]);
    let view = &all[1];
    assert_eq!((view.beat.in_flight, view.seen_at), (4, now.plus(SHORT)));
    assert_eq!((view.beat.lanes.as_slice(), view.beat.version.as_str()), (&[0, 7, 15][..], "0.1.0"));
    assert_eq!(view.beat.started_at, Timestamp::from_millis(5));
    let recent = store.list_workers(now).await.unwrap();
    assert_eq!(recent.len(), 1);
    assert_eq!(store.list_workers(now.plus(SHORT)).await.unwrap().len(), 1, "since includes its moment");
}

pub async fn deregistered_worker_is_gone(bench: ConformanceBench) {
    let store = &bench.stores.workers;
    store.record_worker_heartbeat(&beat("w1", 1), bench.now().await).await.unwrap();
    store.deregister_worker(&worker("w1")).await.unwrap();
    store.deregister_worker(&worker("missing")).await.unwrap();
    assert!(store.list_workers(Timestamp::EPOCH).await.unwrap().is_empty());
}

pub async fn duty_is_leased_to_one_worker(bench: ConformanceBench) {
    assert_eq!(take(&bench, "w1", LONG).await, Some(Timestamp::EPOCH));
    assert_eq!(take(&bench, "w2", LONG).await, None);
    assert_eq!(take(&bench, "w1", LONG).await, Some(Timestamp::EPOCH), "one's own lease is extended");
    let other = bench.stores.workers.take_duty("trim", &worker("w2"), LONG, bench.now().await).await.unwrap();
    assert_eq!(other, Some(Timestamp::EPOCH), "each duty has its own lease");
}

pub async fn finished_duty_is_free_with_time(bench: ConformanceBench) {
    let store = &bench.stores.workers;
    take(&bench, "w1", LONG).await;
    let done_at = Timestamp::from_millis(1_234);
    store.finish_duty("sweep", &worker("w1"), done_at).await.unwrap();
    assert_eq!(take(&bench, "w2", LONG).await, Some(done_at));
    store.finish_duty("never-taken", &worker("w1"), done_at).await.unwrap();
}

pub async fn expired_duty_lease_passes_on(bench: ConformanceBench) {
    take(&bench, "w1", SHORT).await;
    bench.passed(bench.now().await.plus(SHORT)).await;
    assert_eq!(take(&bench, "w2", LONG).await, Some(Timestamp::EPOCH));
    let late = Timestamp::from_millis(99);
    bench.stores.workers.finish_duty("sweep", &worker("w1"), late).await.unwrap();
    assert_eq!(take(&bench, "w3", LONG).await, None, "a late finish releases nothing");
    assert_eq!(take(&bench, "w2", LONG).await, Some(Timestamp::EPOCH), "and records nothing");
}

pub async fn duty_race_has_one_winner(bench: ConformanceBench) {
    for round in 0..20 {
        let tasks: Vec<_> = (0..8)
            .map(|n| {
                let bench = bench.clone();
                tokio::spawn(async move {
                    let (duty, by) = (format!("duty-{round}"), worker(&format!("w{n}")));
                    let now = bench.now().await;
                    bench.stores.workers.take_duty(&duty, &by, LONG, now).await.unwrap().is_some()
                })
            })
            .collect();
        let mut turns = 0;
        for task in tasks {
            turns += usize::from(task.await.unwrap());
        }
        assert_eq!(turns, 1, "round {round}");
    }
}
