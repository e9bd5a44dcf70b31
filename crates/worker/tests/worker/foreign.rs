//! Definitions that a build cannot use: during a rolling upgrade other builds can, and no execution is
//! paused.

use std::time::Duration;

use millstream_model::id::{Name, TenantId};
use millstream_model::status::{ActionStatus, EventStatus, ExecutionStatus};
use millstream_store::Stores;
use millstream_store::definition_store::NewDefinition;
use millstream_store_memory::MemoryStore;
use millstream_testkit::sink::SinkAnswer;
use millstream_testkit::{TestSink, eventually};
use millstream_worker::WorkerOptions;

use crate::bench::{BenchWorker, COUNTER, WorkerBench};

/// A worker for which the definition `name` is written in an unknown format.
async fn old_worker(bench: &WorkerBench, name: &str) -> BenchWorker {
    let elsewhere = Stores::from_backend(MemoryStore::with_clock(bench.clock.clone()));
    let new = NewDefinition {
        name: Name::parse(name).unwrap(),
        dialect: 2,
        source: r#"{"name":"from the future"}"#.to_owned(),
        checksum: "none".to_owned(),
    };
    elsewhere.definitions.put_definition(&TenantId::default_tenant(), &new, bench.now()).await.unwrap();
    let mut stores = bench.stores.clone();
    stores.definitions = elsewhere.definitions;
    bench.worker_on(stores, bench.streams.clone(), patient(bench))
}

/// Neither a sweep nor a reclaim helps within the time of a test.
fn patient(bench: &WorkerBench) -> WorkerOptions {
    WorkerOptions {
        overdue: Duration::from_secs(600),
        reclaim_idle: Duration::from_secs(600),
        lease: Duration::from_secs(600),
        ..bench.options()
    }
}

#[tokio::test]
async fn old_worker_leaves_execution_to_new_one() {
    let bench = WorkerBench::new();
    bench.define(COUNTER).await;
    let key = bench.start("counter", "a").await;
    let _old = old_worker(&bench, "counter").await;
    let event = bench.send(&key, "add", r#"{"n":0}"#).await;
    eventually(Duration::from_secs(20), || async {
        let stats = bench.streams.care.lane_stats().await.unwrap();
        if stats.iter().any(|lane| lane.pending > 0) { Ok(()) } else { Err("no worker took the doorbell") }
    })
    .await;
    let _new = bench.worker_with(patient(&bench));
    let event = bench.until_event(event, EventStatus::Completed).await;
    assert_eq!(event.attempts, 0);
    assert!(bench.stores.interventions.list_decisions(&key).await.unwrap().is_empty(), "it was paused");
    bench.until_quiet().await;
}

#[tokio::test]
async fn old_worker_can_cancel_foreign_execution() {
    let bench = WorkerBench::new();
    bench.define(COUNTER).await;
    let key = bench.start("counter", "a").await;
    let first = bench.post(&key, "add", r#"{"n":0}"#).await;
    bench.post(&key, "millstream.cancel", "null").await;
    let last = bench.send(&key, "add", r#"{"n":1}"#).await;
    let _old = old_worker(&bench, "counter").await;
    bench.until_status(&key, ExecutionStatus::Cancelled).await;
    for event in [first, last] {
        let event = bench.until_event(event, EventStatus::Rejected).await;
        assert_eq!(event.error.as_deref(), Some("execution ended"));
    }
    bench.until_quiet().await;
    bench.assert_sound(&key).await;
}

#[tokio::test]
async fn execution_without_definition_is_paused() {
    let bench = WorkerBench::new();
    bench.define(COUNTER).await;
    let key = bench.start("counter", "a").await;
    let mut stores = bench.stores.clone();
    stores.definitions = Stores::from_backend(MemoryStore::new()).definitions;
    let _worker = bench.worker_on(stores, bench.streams.clone(), bench.options());
    let event = bench.send(&key, "add", r#"{"n":0}"#).await;
    let paused = bench.until_status(&key, ExecutionStatus::Paused).await;
    assert!(paused.paused_reason.unwrap().contains("counter@1"));
    bench.until_quiet().await;
    bench.send(&key, "millstream.cancel", "null").await;
    bench.until_status(&key, ExecutionStatus::Cancelled).await;
    bench.until_event(event, EventStatus::Rejected).await;
    bench.until_quiet().await;
}

#[tokio::test]
async fn foreign_action_is_released_uncounted() {
    let (bench, sink) = (WorkerBench::new(), TestSink::start().await);
    sink.set_answers("/call", [SinkAnswer::Hold(200), SinkAnswer::Status(200)]);
    bench
        .define(&format!(
            r#"
name: job
initial: open
states:
  open: {{ on: {{ go: {{ do: [call] }}, close: {{ to: closed }} }} }}
  closed: {{ final: true }}
actions:
  call: {{ http: {{ method: GET, url: "{}" }}, retry: {{ attempts: 1 }} }}
"#,
            sink.url("/call")
        ))
        .await;
    let hurried = WorkerOptions { drain: Duration::from_millis(200), ..patient(&bench) };
    let new = bench.worker_with(hurried);
    let key = bench.start("job", "a").await;
    let go = bench.send(&key, "go", "null").await;
    eventually(Duration::from_secs(20), || async {
        if sink.recorded_calls().len() == 1 { Ok(()) } else { Err("not called") }
    })
    .await;
    new.drain().await;
    let old = old_worker(&bench, "job").await;
    let action =
        || async { bench.stores.execution_views.list_actions(&key, None, 10).await.unwrap().remove(0) };
    eventually(Duration::from_secs(30), || async {
        let action = action().await;
        // Leased under the second epoch, and free again.
        if action.epoch.0 >= 2 && action.status == ActionStatus::Ready { Ok(()) } else { Err(action) }
    })
    .await;
    old.drain().await;
    assert_eq!(action().await.attempts, 0);
    assert_eq!(bench.execution(&key).await.status, ExecutionStatus::Active);
    let _new = bench.worker_with(patient(&bench));
    bench.until_event(go, EventStatus::Completed).await;
}
