//! Events that crash their process: the guilty one is quarantined, and no other event with it.
//!
//! A process that dies while it decides is simulated by a commit that never returns and a worker that is then
//! killed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use millstream_model::id::EventId;
use millstream_model::status::{EventStatus, ExecutionStatus};
use millstream_stream::{EmbeddedStream, StreamHandles};
use millstream_testkit::eventually;
use millstream_worker::WorkerOptions;

use crate::bench::{BenchWorker, COUNTER, WorkerBench};
use crate::faulty::{self, FaultHook, FaultyCall, ServiceFault};

/// More processes than the rule needs: two in a batch, then one per attempt up to the cap.
const LIVES: usize = 8;

/// Commits that decide `killer` never return.
fn deadly(killer: EventId) -> (FaultHook, Arc<AtomicBool>) {
    let reached = Arc::new(AtomicBool::new(false));
    let seen = reached.clone();
    let hook = faulty::on(ServiceFault::Hang, move |call| {
        let hit = matches!(call, FaultyCall::Commit(batch)
            if batch.iter().flat_map(|commit| &commit.decided).any(|decided| decided.event_id == killer));
        seen.fetch_or(hit, Ordering::SeqCst);
        hit
    });
    (hook, reached)
}

fn options(bench: &WorkerBench) -> WorkerOptions {
    WorkerOptions { overdue: Duration::from_secs(600), ..bench.hasty() }
}

/// Runs and crashes workers until `killer` is quarantined; the last worker lives on.
async fn until_dead(
    bench: &WorkerBench,
    killer: EventId,
    life: impl Fn(&FaultHook) -> BenchWorker,
) -> (usize, BenchWorker) {
    let (hook, reached) = deadly(killer);
    for lives in 1..=LIVES {
        reached.store(false, Ordering::SeqCst);
        let worker = life(&hook);
        let status = eventually(Duration::from_secs(30), || async {
            match (bench.event(killer).await.status, reached.load(Ordering::SeqCst)) {
                (EventStatus::Pending, false) => Err("nothing has happened yet"),
                (status, _) => Ok(status),
            }
        })
        .await;
        if status == EventStatus::Dead {
            return (lives, worker);
        }
        worker.kill().await;
    }
    panic!("alive after {LIVES} processes: {:?}", bench.event(killer).await);
}

#[tokio::test]
async fn crashing_event_is_quarantined_alone() {
    let bench = WorkerBench::new();
    bench.define(COUNTER).await;
    let bad = bench.start("counter", "bad").await;
    let killer = bench.post(&bad, "add", r#"{"n":0}"#).await;
    bench.ring(&bad).await;
    let mut innocent = Vec::new();
    for n in 0..12 {
        let key = bench.start("counter", &format!("x{n}")).await;
        innocent.push(bench.send(&key, "add", r#"{"n":0}"#).await);
    }
    let life = |hook: &FaultHook| {
        bench.worker_on(faulty::stores(&bench.stores, hook), bench.streams.clone(), options(&bench))
    };
    let (_, _last) = until_dead(&bench, killer, life).await;
    bench.until_status(&bad, ExecutionStatus::Paused).await;
    for event in innocent {
        let event = bench.until_event(event, EventStatus::Completed).await;
        assert!(event.attempts <= 2, "blamed together with the guilty event: {event:?}");
    }
    bench.until_quiet().await;
}

#[tokio::test]
async fn poison_behind_innocent_head_is_found() {
    let bench = WorkerBench::new();
    bench.define(COUNTER).await;
    let key = bench.start("counter", "a").await;
    let mut events = Vec::new();
    for n in 0..10 {
        events.push(bench.post(&key, "add", &format!(r#"{{"n":{n}}}"#)).await);
    }
    bench.ring(&key).await;
    let killer = events.pop().unwrap();
    let life = |hook: &FaultHook| {
        bench.worker_on(faulty::stores(&bench.stores, hook), bench.streams.clone(), options(&bench))
    };
    let (_, _last) = until_dead(&bench, killer, life).await;
    for event in events {
        assert_eq!(bench.event(event).await.status, EventStatus::Completed);
    }
    assert_eq!(bench.execution(&key).await.state.context["ordered"].as_str(), "true");
    bench.assert_sound(&key).await;
}

#[tokio::test]
async fn crashes_count_without_surviving_stream() {
    let bench = WorkerBench::new();
    bench.define(COUNTER).await;
    let bad = bench.start("counter", "bad").await;
    let killer = bench.post(&bad, "add", r#"{"n":0}"#).await;
    let good = bench.start("counter", "good").await;
    let innocent = bench.post(&good, "add", r#"{"n":0}"#).await;
    let life = |hook: &FaultHook| {
        let streams = StreamHandles::from_backend(EmbeddedStream::new(&*bench.entropy));
        let options = WorkerOptions { suspect_before: Some(bench.now()), ..options(&bench) };
        bench.worker_on(faulty::stores(&bench.stores, hook), streams, options)
    };
    let (_, _last) = until_dead(&bench, killer, life).await;
    assert!(bench.until_event(innocent, EventStatus::Completed).await.attempts <= 2);
}

#[tokio::test]
async fn store_outage_is_not_events_fault() {
    let bench = WorkerBench::new();
    bench.define(COUNTER).await;
    let key = bench.start("counter", "a").await;
    let event = bench.send(&key, "add", r#"{"n":0}"#).await;
    // The first commit panics, so the event is suspected; the next ten meet an outage.
    let commits = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let hook: FaultHook = Arc::new(move |call| {
        if !matches!(call, FaultyCall::Commit(_)) {
            return ServiceFault::None;
        }
        match commits.fetch_add(1, Ordering::SeqCst) {
            0 => ServiceFault::Panic,
            1..=10 => ServiceFault::Unavailable,
            _ => ServiceFault::None,
        }
    });
    let _worker =
        bench.worker_on(faulty::stores(&bench.stores, &hook), bench.streams.clone(), bench.options());
    assert_eq!(bench.until_event(event, EventStatus::Completed).await.attempts, 1);
}

const DEAR: &str = "name: dear\ninitial: a\nstates:\n  a:\n    on:\n      e:\n        - { if: \"event.payload.all(x, x > 1 || x < 3)\", set: { done: true } }\n        - set: { done: false }\n";

fn many_items() -> String {
    format!("[{}1]", "1,".repeat(30_000))
}

#[tokio::test]
async fn expensive_event_is_decided_in_pool() {
    let bench = WorkerBench::new();
    bench.define(DEAR).await;
    bench.define(COUNTER).await;
    let (dear, cheap) = (bench.start("dear", "d").await, bench.start("counter", "c").await);
    let mut events = Vec::new();
    for _ in 0..3 {
        events.push(bench.send(&dear, "e", &many_items()).await);
        events.push(bench.send(&dear, "e", "[1]").await);
    }
    events.push(bench.send(&cheap, "add", r#"{"n":0}"#).await);
    let _worker = bench.worker();
    for event in events {
        let decided = bench.until_event(event, EventStatus::Completed).await;
        assert_eq!(decided.attempts, 0, "{decided:?}");
    }
    bench.until_quiet().await;
    bench.assert_sound(&dear).await;
}

#[tokio::test]
async fn decision_timeout_counts_as_attempt() {
    let bench = WorkerBench::new();
    bench.define(DEAR).await;
    let (slow, quick) = (bench.start("dear", "slow").await, bench.start("dear", "quick").await);
    let given_up = bench.send(&slow, "e", &many_items()).await;
    let decided = bench.send(&quick, "e", "[1]").await;
    let _worker = bench.worker_with(WorkerOptions {
        decision_patience: Duration::ZERO,
        poison_cap: 2,
        ..options(&bench)
    });
    bench.until_event(decided, EventStatus::Completed).await;
    let dead = bench.until_event(given_up, EventStatus::Dead).await;
    assert_eq!(dead.attempts, 2, "{dead:?}");
    bench.until_status(&slow, ExecutionStatus::Paused).await;
}
