//! Draining: work in hand is finished or handed back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use millstream_model::status::{ActionStatus, EventStatus};
use millstream_testkit::sink::SinkAnswer;
use millstream_testkit::{TestSink, eventually};

use crate::bench::{COUNTER, WorkerBench};
use crate::faulty::{self, FaultyCall, ServiceFault};

#[tokio::test]
async fn drain_rings_kept_doorbells_again() {
    let bench = WorkerBench::new();
    bench.define(COUNTER).await;
    let key = bench.start("counter", "a").await;
    // The first worker can read and never load.
    let failed = Arc::new(AtomicBool::new(false));
    let hook = {
        let failed = failed.clone();
        faulty::on(ServiceFault::Unavailable, move |call| {
            let loads = matches!(call, FaultyCall::Load);
            failed.fetch_or(loads, Ordering::SeqCst);
            loads
        })
    };
    let first = bench.worker_on(faulty::stores(&bench.stores, &hook), bench.streams.clone(), bench.options());
    let event = bench.send(&key, "add", r#"{"n":0}"#).await;
    eventually(Duration::from_secs(20), || async {
        if failed.load(Ordering::SeqCst) { Ok(()) } else { Err("nothing was read") }
    })
    .await;
    first.drain().await;
    let stats = bench.streams.care.lane_stats().await.unwrap();
    assert_eq!(
        stats.iter().map(|lane| (lane.pending, lane.length)).max(),
        Some((0, 1)),
        "rung again, not pending"
    );

    // Neither reclaim nor sweep can help here: both take much longer than this.
    let _second = bench.worker();
    let event = bench.until_event(event, EventStatus::Completed).await;
    assert_eq!(event.attempts, 0, "a drain does not count as an attempt");
    bench.until_quiet().await;
}

#[tokio::test]
async fn drain_finishes_running_action() {
    let (bench, sink) = (WorkerBench::new(), TestSink::start().await);
    sink.set_answers("/hold", [SinkAnswer::Hold(200)]);
    define_call(&bench, &sink.url("/hold")).await;
    let worker = bench.worker();
    let key = bench.start("job", "a").await;
    let go = bench.send(&key, "go", "null").await;
    called(&sink, 1).await;
    let drained = tokio::spawn(worker.drain());
    sink.release_held();
    drained.await.unwrap();
    assert_eq!(bench.event(go).await.status, EventStatus::Completed);
    assert!(
        bench.stores.workers.list_workers(millstream_model::time::Timestamp::EPOCH).await.unwrap().is_empty()
    );
}

#[tokio::test]
async fn drain_releases_slow_action_uncounted() {
    let (bench, sink) = (WorkerBench::new(), TestSink::start().await);
    sink.set_answers("/hold", [SinkAnswer::Hold(200)]);
    define_call(&bench, &sink.url("/hold")).await;
    let mut options = bench.options();
    options.drain = Duration::from_millis(200);
    let worker = bench.worker_with(options);
    let key = bench.start("job", "a").await;
    let go = bench.send(&key, "go", "null").await;
    called(&sink, 1).await;
    worker.drain().await;
    let action = bench.stores.execution_views.list_actions(&key, None, 100).await.unwrap().remove(0);
    assert_eq!((action.status, action.attempts), (ActionStatus::Ready, 0));
    sink.release_held();
    let _second = bench.worker();
    bench.until_event(go, EventStatus::Completed).await;
    assert_eq!(sink.recorded_calls()[1].header("millstream-fencing-token"), Some("2"));
}

/// One action and one visit are under way; then `down` hits every call, and the worker drains.
async fn drains_in_time_when(down: ServiceFault) {
    let (bench, sink) = (WorkerBench::new(), TestSink::start().await);
    sink.set_answers("/hold", [SinkAnswer::Hold(200)]);
    define_call(&bench, &sink.url("/hold")).await;
    let (fallen, met) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let hook: faulty::FaultHook = {
        let (fallen, met) = (fallen.clone(), met.clone());
        Arc::new(move |_| {
            let down_now = fallen.load(Ordering::SeqCst);
            met.fetch_or(down_now, Ordering::SeqCst);
            if down_now { down } else { ServiceFault::None }
        })
    };
    let mut options = bench.options();
    options.drain = Duration::from_secs(2);
    options.lease = Duration::from_millis(300);
    let worker = bench.worker_on(
        faulty::stores(&bench.stores, &hook),
        faulty::streams(&bench.streams, &hook),
        options,
    );
    let key = bench.start("job", "a").await;
    bench.send(&key, "go", "null").await;
    called(&sink, 1).await;
    fallen.store(true, Ordering::SeqCst);
    bench.send(&key, "go", "null").await;
    // The action ends, and its outcome cannot be recorded.
    sink.release_held();
    eventually(Duration::from_secs(20), || async {
        if met.load(Ordering::SeqCst) { Ok(()) } else { Err("the outage was not met") }
    })
    .await;
    let began = std::time::Instant::now();
    worker.drain().await;
    assert!(began.elapsed() < Duration::from_millis(2500), "it took {:?}", began.elapsed());
}

#[tokio::test]
async fn hanging_services_do_not_delay_drain() {
    drains_in_time_when(ServiceFault::Hang).await;
}

#[tokio::test]
async fn unavailable_services_do_not_delay_drain() {
    drains_in_time_when(ServiceFault::Unavailable).await;
}

#[tokio::test]
async fn store_contention_does_not_delay_drain() {
    drains_in_time_when(ServiceFault::Contention).await;
}

async fn define_call(bench: &WorkerBench, url: &str) {
    bench
        .define(&format!(
            r#"
name: job
initial: open
states:
  open: {{ on: {{ go: {{ do: [call] }}, close: {{ to: closed }} }} }}
  closed: {{ final: true }}
actions:
  call: {{ http: {{ method: GET, url: "{url}" }} }}
"#
        ))
        .await;
}

async fn called(sink: &TestSink, times: usize) {
    eventually(Duration::from_secs(20), || async {
        let calls = sink.recorded_calls().len();
        if calls >= times { Ok(()) } else { Err(calls) }
    })
    .await;
}
