//! Timers: fired, cancelled, stale, and the execution's own timeout.

use millstream_model::status::{EventStatus, ExecutionStatus};

use crate::bench::WorkerBench;

const WAITING: &str = "
name: waiting
initial: open
states:
  open:
    on: { pay: { to: paid }, expire: { to: expired } }
    after: [{ in: 150ms, send: expire }]
  paid:
    on: { expire: { to: expired }, ship: { to: shipped } }
  shipped: { final: true }
  expired: { final: failed }
";

#[tokio::test]
async fn timer_fires_once() {
    let bench = WorkerBench::new();
    bench.define(WAITING).await;
    let _workers = [bench.worker(), bench.worker()];
    let key = bench.start("waiting", "a").await;
    bench.until_status(&key, ExecutionStatus::Failed).await;
    assert_eq!(bench.applied(&key).await, ["expire"]);
    assert!(bench.stores.execution_views.list_timers(&key, None, 100).await.unwrap().is_empty());
    bench.assert_sound(&key).await;
}

#[tokio::test]
async fn leaving_state_cancels_its_timers() {
    let bench = WorkerBench::new();
    bench.define(WAITING).await;
    let _worker = bench.worker();
    let key = bench.start("waiting", "a").await;
    bench.send(&key, "pay", "null").await;
    bench.until_state(&key, "paid").await;
    assert!(bench.stores.execution_views.list_timers(&key, None, 100).await.unwrap().is_empty());
}

#[tokio::test]
async fn stale_timer_event_is_ignored() {
    let bench = WorkerBench::new();
    bench.define(WAITING).await;
    let key = bench.start("waiting", "a").await;
    let pay = bench.post(&key, "pay", "null").await;
    // No worker yet: the timer fires behind `pay`, and both are decided in one turn.
    let expire = millstream_testkit::eventually(std::time::Duration::from_secs(10), || async {
        let id = millstream_model::entropy::event_id(bench.now(), &*bench.entropy);
        let fired = bench.stores.timers.fire_due(&[id], bench.now()).await.unwrap();
        if fired.is_empty() { Err("not due yet") } else { Ok(id) }
    })
    .await;
    bench.ring(&key).await;
    let _worker = bench.worker();
    bench.until_event(pay, EventStatus::Completed).await;
    bench.until_event(expire, EventStatus::Rejected).await;
    assert_eq!(bench.execution(&key).await.state.state.as_str(), "paid");
}

#[tokio::test]
async fn armed_timer_wakes_worker_in_time() {
    let bench = WorkerBench::new();
    bench
        .define(
            "
name: chain
initial: idle
states:
  idle: { on: { go: { to: first } } }
  first: { on: { tick: { to: second } }, after: [{ in: 30ms, send: tick }] }
  second: { on: { tick: { to: third } }, after: [{ in: 30ms, send: tick }] }
  third: { final: true }
",
        )
        .await;
    let mut options = bench.options();
    // Only the alarm can be in time.
    options.tick = std::time::Duration::from_secs(600);
    let _worker = bench.worker_with(options);
    let key = bench.start("chain", "a").await;
    bench.send(&key, "go", "null").await;
    bench.until_status(&key, ExecutionStatus::Completed).await;
}

#[tokio::test]
async fn execution_fails_after_its_timeout() {
    let bench = WorkerBench::new();
    bench
        .define(
            "
name: slow
initial: open
timeout: 100ms
states:
  open: { on: { touch: { to: open }, close: { to: closed } } }
  closed: { final: true }
",
        )
        .await;
    let _worker = bench.worker();
    let key = bench.start("slow", "a").await;
    bench.send(&key, "touch", "null").await;
    bench.until_status(&key, ExecutionStatus::Failed).await;
    assert_eq!(bench.applied(&key).await.last().map(String::as_str), Some("millstream.timeout"));
    bench.assert_sound(&key).await;
}
