//! Actions performed by devices: a run is created, supervised, reported, and withdrawn.

use std::collections::BTreeMap;
use std::time::Duration;

use millstream_devices::claim::{
    DevicePolicy, DeviceReport, RunSettings, SeatBackoff, SeatFailureKind, SeatState, SeatStatus,
};
use millstream_model::id::{DeviceId, ExecutionKey, Name, TenantId};
use millstream_model::status::ExecutionStatus;
use millstream_store::run_store::{RunFilter, StoredRun};
use millstream_testkit::eventually;
use millstream_worker::WorkerOptions;

use crate::bench::WorkerBench;
use crate::listener::{ScriptedSink, SinkMood};

const SHOP: &str = "
name: shop
initial: new
context: {}
states:
  new: { on: { go: { to: filming, do: [film] } } }
  filming: { on: { filmed: { to: done }, broken: { to: lost }, stop: { to: done } } }
  done: { final: true }
  lost: { final: failed }
actions:
  film:
    device: { kind: film, settings: { assignment_timeout: TIMEOUT, max_reassignments: 0 } }
    on_success: filmed
    on_failure: broken
";

async fn shop(timeout: &str) -> (WorkerBench, ExecutionKey) {
    let bench = WorkerBench::new();
    bench.define(&SHOP.replace("TIMEOUT", timeout)).await;
    register(&bench, "one").await;
    let key = bench.start("shop", "s-1").await;
    (bench, key)
}

async fn register(bench: &WorkerBench, id: &str) {
    let device = DeviceReport {
        capability: 0,
        ..DeviceReport::with_defaults(DeviceId::parse(id).unwrap(), bench.now())
    };
    let tenant = TenantId::default_tenant();
    bench.stores.devices.record_device_heartbeats(&[(tenant, device)], bench.now()).await.unwrap();
}

/// Runs of the kind `film` pause this often, and briefly.
fn resting(bench: &WorkerBench, rounds: u32) -> WorkerOptions {
    let backoff = SeatBackoff { first: Duration::from_millis(50), max: Duration::from_millis(50), rounds };
    let film = RunSettings { backoff, ..RunSettings::default() };
    let kinds = BTreeMap::from([(Name::parse("film").unwrap(), film)]);
    WorkerOptions { devices: DevicePolicy { kinds, ..DevicePolicy::default() }, ..bench.hasty() }
}

#[tokio::test]
async fn run_without_devices_is_published() {
    let (mut bench, key) = shop("100ms").await;
    let listener = std::sync::Arc::new(ScriptedSink::who("sink", |_| SinkMood::Take));
    bench.sinks = vec![listener.clone()];
    let _worker = bench.worker_with(bench.hasty());
    bench.send(&key, "go", "{}").await;
    bench.until_status(&key, ExecutionStatus::Failed).await;
    let run = until_status(&bench, &key, SeatStatus::Failed).await;
    eventually(Duration::from_secs(20), || async {
        let heard = listener.heard();
        if heard.is_empty() { Err(heard) } else { Ok(()) }
    })
    .await;
    let event = listener.heard().remove(0);
    assert_eq!(event.kind, "millstream.run.nobody_left");
    assert_eq!((event.source.as_str(), event.subject.as_str()), ("/test/default", run.key.run.as_str()));
    assert!(event.data.as_str().contains(r#""kind":"film""#) && event.data.as_str().contains(r#""s-1""#));
}

async fn runs(bench: &WorkerBench, key: &ExecutionKey) -> Vec<StoredRun> {
    let filter = RunFilter { execution: Some(key.execution.clone()), ..RunFilter::default() };
    bench.stores.run_views.list_runs(&key.tenant, &filter, None, 10).await.unwrap()
}

async fn until_status(bench: &WorkerBench, key: &ExecutionKey, status: SeatStatus) -> StoredRun {
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    loop {
        let found = runs(bench, key).await;
        assert!(found.len() <= 1, "{found:?}");
        if let Some(found) = found.into_iter().find(|stored| stored.run.status() == status) {
            return found;
        }
        assert!(std::time::Instant::now() < deadline, "no run became {status}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn silent_device_fails_the_action() {
    let (bench, key) = shop("100ms").await;
    let _worker = bench.worker_with(bench.hasty());
    bench.send(&key, "go", "{}").await;
    bench.until_status(&key, ExecutionStatus::Failed).await;
    let ended = until_status(&bench, &key, SeatStatus::Failed).await;
    let SeatState::Failed { failure, .. } = &ended.run.seats[0].state else { panic!("{ended:?}") };
    assert_eq!(failure.kind, SeatFailureKind::NobodyLeft);
    assert_eq!(bench.execution(&key).await.state.state.as_str(), "lost");
}

#[tokio::test]
async fn runs_of_ended_execution_are_withdrawn() {
    let (bench, key) = shop("1h").await;
    let _worker = bench.worker_with(bench.hasty());
    bench.send(&key, "go", "{}").await;
    let asked = until_status(&bench, &key, SeatStatus::Assigned).await;
    assert_eq!(asked.run.seats[0].current_holding().unwrap().device.as_str(), "one");
    bench.send(&key, "stop", "{}").await;
    bench.until_status(&key, ExecutionStatus::Completed).await;
    let withdrawn = until_status(&bench, &key, SeatStatus::Failed).await;
    let SeatState::Failed { failure, .. } = &withdrawn.run.seats[0].state else { panic!("{withdrawn:?}") };
    assert_eq!(failure.kind, SeatFailureKind::Cancelled);
}

#[tokio::test]
async fn run_without_devices_waits_for_one() {
    let bench = WorkerBench::new();
    bench.define(&SHOP.replace("TIMEOUT", "1h")).await;
    let key = bench.start("shop", "s-1").await;
    let _worker = bench.worker_with(resting(&bench, u32::MAX));
    bench.send(&key, "go", "{}").await;
    let waits = until_status(&bench, &key, SeatStatus::Reassigning).await;
    assert_eq!(waits.run.settings.backoff.first, Duration::from_millis(50), "from the settings of its kind");
    register(&bench, "late").await;
    let asked = until_status(&bench, &key, SeatStatus::Assigned).await;
    assert_eq!(asked.run.seats[0].current_holding().unwrap().device.as_str(), "late");
    assert!(asked.run.settings.assignment_timeout.as_secs() == 3600, "from the definition");
}

#[tokio::test]
async fn run_without_devices_fails_action() {
    let bench = WorkerBench::new();
    bench.define(&SHOP.replace("TIMEOUT", "1h")).await;
    let key = bench.start("shop", "s-1").await;
    let _worker = bench.worker_with(resting(&bench, 2));
    bench.send(&key, "go", "{}").await;
    bench.until_status(&key, ExecutionStatus::Failed).await;
    assert_eq!(bench.execution(&key).await.state.state.as_str(), "lost");
    let ended = until_status(&bench, &key, SeatStatus::Failed).await;
    let SeatState::Failed { failure, .. } = &ended.run.seats[0].state else { panic!("{ended:?}") };
    assert_eq!(failure.kind, SeatFailureKind::NobodyLeft);
}
