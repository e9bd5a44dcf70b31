//! From a doorbell to a decision: order, batches, rejection, deferral, cancellation.

use millstream_model::error_class::ErrorClass;
use millstream_model::id::IncidentId;
use millstream_model::incident::NewIncident;
use millstream_model::status::{EventStatus, ExecutionStatus};
use millstream_store::intervention::ExecutionPause;

use crate::bench::{COUNTER, WorkerBench, key};

#[tokio::test]
async fn event_is_decided_and_doorbell_acknowledged() {
    let bench = WorkerBench::new();
    bench.define(COUNTER).await;
    let _worker = bench.worker();
    let key = bench.start("counter", "a").await;
    let event = bench.send(&key, "add", r#"{"n":0}"#).await;
    let event = bench.until_event(event, EventStatus::Completed).await;
    assert_eq!(event.seq.map(|seq| seq.0), Some(2));
    assert_eq!(event.worker_id.map(|id| id.to_string()), Some("w0".to_owned()));
    assert_eq!(bench.execution(&key).await.state.context["total"].as_str(), "1");
    bench.until_quiet().await;
    bench.assert_sound(&key).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_keep_order_among_four_workers() {
    let bench = WorkerBench::new();
    bench.define(COUNTER).await;
    let _workers: Vec<_> = (0..4).map(|_| bench.worker()).collect();
    let key = bench.start("counter", "a").await;
    for n in 0..200 {
        bench.send(&key, "add", &format!(r#"{{"n":{n}}}"#)).await;
    }
    bench.until_done().await;
    let context = bench.execution(&key).await.state.context;
    assert_eq!((context["total"].as_str(), context["ordered"].as_str()), ("200", "true"));
    bench.until_quiet().await;
    bench.assert_sound(&key).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_executions_finish() {
    let bench = WorkerBench::new();
    bench.define(COUNTER).await;
    let _workers: Vec<_> = (0..2).map(|_| bench.worker()).collect();
    for n in 0..1000 {
        let key = bench.start("counter", &format!("x{n}")).await;
        bench.send(&key, "add", r#"{"n":0}"#).await;
        bench.send(&key, "stop", "null").await;
    }
    bench.until_done().await;
    for n in 0..1000 {
        let execution = bench.execution(&key(&format!("x{n}"))).await;
        assert_eq!((execution.status, execution.state.seq.0), (ExecutionStatus::Completed, 3), "x{n}");
    }
    bench.until_quiet().await;
}

#[tokio::test]
async fn large_mailbox_is_decided_in_slices() {
    let bench = WorkerBench::new();
    bench.define(COUNTER).await;
    let key = bench.start("counter", "a").await;
    for n in 0..50 {
        bench.post(&key, "add", &format!(r#"{{"n":{n}}}"#)).await;
    }
    bench.ring(&key).await;
    let mut options = bench.options();
    options.mailbox.events = 7;
    let _worker = bench.worker_with(options);
    bench.until_done().await;
    assert_eq!(bench.execution(&key).await.state.context["ordered"].as_str(), "true");
    bench.until_quiet().await;
}

#[tokio::test]
async fn mailboxes_beyond_their_share_of_a_visit_are_decided() {
    let bench = WorkerBench::new();
    bench.define(COUNTER).await;
    let mut keys = Vec::new();
    for (name, events) in [("small", 1), ("deep", 40), ("deeper", 60), ("empty", 0), ("other", 2)] {
        let key = bench.start("counter", name).await;
        for n in 0..events {
            bench.post(&key, "add", &format!(r#"{{"n":{n}}}"#)).await;
        }
        keys.push(key);
    }
    for key in &keys {
        bench.ring(key).await;
    }
    let mut options = bench.options();
    (options.mailbox.events, options.visit_events) = (7, 10);
    let _worker = bench.worker_with(options);
    bench.until_done().await;
    for key in &keys {
        assert_eq!(bench.execution(key).await.state.context["ordered"].as_str(), "true", "{key:?}");
    }
    bench.until_quiet().await;
}

#[tokio::test]
async fn unexpected_events_are_rejected_with_reason() {
    let bench = WorkerBench::new();
    bench.define(COUNTER).await;
    let _worker = bench.worker();
    let key = bench.start("counter", "a").await;
    bench.send(&key, "stop", "null").await;
    let late = bench.send(&key, "add", r#"{"n":0}"#).await;
    let late = bench.until_event(late, EventStatus::Rejected).await;
    assert_eq!(late.error.as_deref(), Some("execution ended"));
    let bad = bench.start("counter", "b").await;
    let bad = bench.send(&bad, "add", "null").await;
    assert!(bench.until_event(bad, EventStatus::Rejected).await.error.is_some());
}

#[tokio::test]
async fn deferred_event_is_applied_in_later_state() {
    let bench = WorkerBench::new();
    bench
        .define(
            "
name: shop
initial: open
states:
  open: { on: { pay: { to: paid } }, defer: [ship] }
  paid: { on: { ship: { to: shipped } } }
  shipped: { final: true }
",
        )
        .await;
    let _worker = bench.worker();
    let key = bench.start("shop", "a").await;
    let ship = bench.send(&key, "ship", "null").await;
    bench.until_event(ship, EventStatus::Deferred).await;
    bench.until_quiet().await;
    bench.send(&key, "pay", "null").await;
    bench.until_event(ship, EventStatus::Completed).await;
    assert_eq!(bench.applied(&key).await, ["pay", "ship"]);
    bench.assert_sound(&key).await;
}

#[tokio::test]
async fn cancellation_rejects_waiting_events() {
    let bench = WorkerBench::new();
    bench.define(COUNTER).await;
    let key = bench.start("counter", "a").await;
    let cancel = bench.post(&key, "millstream.cancel", "null").await;
    let after = bench.send(&key, "add", r#"{"n":0}"#).await;
    let _worker = bench.worker();
    bench.until_event(cancel, EventStatus::Completed).await;
    bench.until_event(after, EventStatus::Rejected).await;
    bench.until_status(&key, ExecutionStatus::Cancelled).await;
}

#[tokio::test]
async fn paused_execution_can_be_cancelled() {
    let bench = WorkerBench::new();
    bench.define(COUNTER).await;
    let key = bench.start("counter", "a").await;
    let incident = NewIncident {
        id: IncidentId(uuid::Uuid::from_u128(7)),
        class: ErrorClass::Corrupt,
        reason: "by hand".to_owned(),
    };
    let pause = [ExecutionPause { execution: key.clone(), incident }];
    bench.stores.interventions.pause_executions(&pause, bench.now()).await.unwrap();
    let waiting = bench.send(&key, "add", r#"{"n":0}"#).await;
    let _worker = bench.worker();
    bench.until_quiet().await;
    assert_eq!(bench.event(waiting).await.status, EventStatus::Pending);
    bench.send(&key, "millstream.cancel", "null").await;
    bench.until_status(&key, ExecutionStatus::Cancelled).await;
    bench.until_event(waiting, EventStatus::Rejected).await;
    bench.until_quiet().await;
}

#[tokio::test]
async fn doorbell_without_event_is_acknowledged() {
    let bench = WorkerBench::new();
    bench.ring(&key("never-started")).await;
    let _worker = bench.worker();
    bench.until_quiet().await;
}
