//! Definitions that a build cannot use: during a rolling upgrade other builds can, and no execution is
//! paused.

use std::time::Duration;

use millstream_core::id::{Name, TenantId};
use millstream_core::status::{ActionStatus, EventStatus, ExecutionStatus};
use millstream_store::Stores;
use millstream_store::definition_store::NewDefinition;
use millstream_store::memory::Memory;
use millstream_testkit::sink::Answer;
use millstream_testkit::{Sink, eventually};
use millstream_worker::WorkerOptions;

use crate::bench::{Bench, COUNTER, Running};

/// A worker for which the definition `name` is written in an unknown format.
async fn old_worker(bench: &Bench, name: &str) -> Running {
    let elsewhere = Stores::of(Memory::with_clock(bench.clock.clone()));
    let new = NewDefinition {
        name: Name::parse(name).unwrap(),
        dialect: 2,
        source: r#"{"name":"from the future"}"#.to_owned(),
        checksum: "none".to_owned(),
    };
    elsewhere.definitions.put(&TenantId::default_tenant(), &new, bench.now()).await.unwrap();
    let mut stores = bench.stores.clone();
    stores.definitions = elsewhere.definitions;
    bench.worker_on(stores, bench.streams.clone(), patient(bench))
}

/// Neither a sweep nor a reclaim helps within the time of a test.
fn patient(bench: &Bench) -> WorkerOptions {
    WorkerOptions {
        overdue: Duration::from_secs(600),
        reclaim_idle: Duration::from_secs(600),
        lease: Duration::from_secs(600),
        ..bench.options()
    }
}

#[tokio::test]
async fn an_execution_that_an_old_worker_cannot_decide_is_left_to_a_new_one() {
    let bench = Bench::new();
    bench.define(COUNTER).await;
    let key = bench.start("counter", "a").await;
    let _old = old_worker(&bench, "counter").await;
    let event = bench.send(&key, "add", r#"{"n":0}"#).await;
    eventually(Duration::from_secs(20), || async {
        let stats = bench.streams.care.stats().await.unwrap();
        if stats.iter().any(|lane| lane.pending > 0) { Ok(()) } else { Err("no worker took the doorbell") }
    })
    .await;
    let _new = bench.worker_with(patient(&bench));
    let event = bench.until_event(event, EventStatus::Completed).await;
    assert_eq!(event.attempts, 0);
    assert!(bench.stores.interventions.decisions(&key).await.unwrap().is_empty(), "it was paused");
    bench.until_quiet().await;
}

#[tokio::test]
async fn an_old_worker_can_cancel_what_it_cannot_decide() {
    let bench = Bench::new();
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
async fn an_execution_whose_definition_is_gone_is_paused_and_can_be_cancelled() {
    let bench = Bench::new();
    bench.define(COUNTER).await;
    let key = bench.start("counter", "a").await;
    let mut stores = bench.stores.clone();
    stores.definitions = Stores::of(Memory::new()).definitions;
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
async fn an_action_that_an_old_worker_cannot_perform_goes_back_uncounted() {
    let (bench, sink) = (Bench::new(), Sink::start().await);
    sink.script("/call", [Answer::Hold(200), Answer::Status(200)]);
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
        if sink.calls().len() == 1 { Ok(()) } else { Err("not called") }
    })
    .await;
    new.drain().await;
    let old = old_worker(&bench, "job").await;
    let action = || async { bench.stores.execution_views.actions(&key, None, 10).await.unwrap().remove(0) };
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
