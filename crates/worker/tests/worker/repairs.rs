//! Every crash and every loss is repaired.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use millstream_model::status::{EventStatus, ExecutionStatus};
use millstream_store::intervention::{DecisionRecord, RetryVerdict};
use millstream_stream::locks::LockToken;
use millstream_testkit::sink::SinkAnswer;
use millstream_testkit::{TestSink, eventually};

use crate::bench::{COUNTER, WorkerBench};
use crate::faulty::{self, FaultyCall, ServiceFault};

async fn until(flag: &AtomicBool) {
    eventually(Duration::from_secs(20), || async {
        if flag.load(Ordering::SeqCst) { Ok(()) } else { Err("not yet") }
    })
    .await;
}

/// A commit with a decision about `execution`.
fn concerns(call: &FaultyCall<'_>, execution: &millstream_model::id::ExecutionKey) -> bool {
    matches!(call, FaultyCall::Commit(batch) if batch.iter().any(|commit| commit.execution == *execution))
}

#[tokio::test]
async fn busy_lock_keeps_only_its_doorbells() {
    let bench = WorkerBench::new();
    bench.define(COUNTER).await;
    let (busy, free) = (bench.start("counter", "busy").await, bench.start("counter", "free").await);
    let other = LockToken("another-worker".to_owned());
    let keys = [busy.clone()];
    bench.streams.locks.acquire_locks(&keys, &other, Duration::from_secs(600)).await.unwrap();
    let _worker = bench.worker();
    let mut waiting = Vec::new();
    for n in 0..20 {
        waiting.push(bench.send(&busy, "add", &format!(r#"{{"n":{n}}}"#)).await);
    }
    let event = bench.send(&free, "add", r#"{"n":0}"#).await;
    bench.until_event(event, EventStatus::Completed).await;
    assert_eq!(bench.event(waiting[0]).await.status, EventStatus::Pending);
    bench.streams.locks.release_locks(&keys, &other).await.unwrap();
    bench.until_done().await;
    assert_eq!(bench.execution(&busy).await.state.context["ordered"].as_str(), "true");
    assert_eq!(bench.event(waiting[0]).await.attempts, 0, "a busy lock does not count as an attempt");
    bench.until_quiet().await;
}

#[tokio::test]
async fn kept_doorbell_without_work_is_acknowledged() {
    let bench = WorkerBench::new();
    bench.define(COUNTER).await;
    let key = bench.start("counter", "a").await;
    let other = LockToken("another-worker".to_owned());
    bench
        .streams
        .locks
        .acquire_locks(std::slice::from_ref(&key), &other, Duration::from_secs(600))
        .await
        .unwrap();
    let _worker = bench.worker();
    bench.ring(&key).await;
    // The lock is never released; only `has_work` can clear this.
    bench.until_quiet().await;
}

#[tokio::test]
async fn conflicting_commit_is_decided_again() {
    let bench = WorkerBench::new();
    bench.define(COUNTER).await;
    let key = bench.start("counter", "a").await;
    let _other = bench.worker();
    // Without locks the two conflict at the fence.
    let mut streams = bench.streams.clone();
    streams.locks = Arc::new(NoLocks);
    let _careless: Vec<_> =
        (0..3).map(|_| bench.worker_on(bench.stores.clone(), streams.clone(), bench.options())).collect();
    for n in 0..100 {
        bench.send(&key, "add", &format!(r#"{{"n":{n}}}"#)).await;
    }
    bench.until_done().await;
    let context = bench.execution(&key).await.state.context;
    assert_eq!((context["total"].as_str(), context["ordered"].as_str()), ("100", "true"));
    bench.assert_sound(&key).await;
    bench.until_quiet().await;
}

/// A lock service that is always down.
struct NoLocks;

#[async_trait::async_trait]
impl millstream_stream::locks::ExecutionLocks for NoLocks {
    async fn acquire_locks(
        &self,
        _keys: &[millstream_model::id::ExecutionKey],
        _token: &LockToken,
        _ttl: Duration,
    ) -> millstream_stream::StreamResult<Vec<bool>> {
        Err(millstream_stream::StreamError::Unavailable("no locks".to_owned()))
    }

    async fn extend_locks(
        &self,
        _keys: &[millstream_model::id::ExecutionKey],
        _token: &LockToken,
        _ttl: Duration,
    ) -> millstream_stream::StreamResult<Vec<bool>> {
        Err(millstream_stream::StreamError::Unavailable("no locks".to_owned()))
    }

    async fn release_locks(
        &self,
        _keys: &[millstream_model::id::ExecutionKey],
        _token: &LockToken,
    ) -> millstream_stream::StreamResult<()> {
        Err(millstream_stream::StreamError::Unavailable("no locks".to_owned()))
    }
}

/// Takes the locks and then reports a failure.
struct LossyLocks(Arc<dyn millstream_stream::locks::ExecutionLocks>);

#[async_trait::async_trait]
impl millstream_stream::locks::ExecutionLocks for LossyLocks {
    async fn acquire_locks(
        &self,
        keys: &[millstream_model::id::ExecutionKey],
        token: &LockToken,
        ttl: Duration,
    ) -> millstream_stream::StreamResult<Vec<bool>> {
        self.0.acquire_locks(keys, token, ttl).await?;
        Err(millstream_stream::StreamError::Unavailable("the answer was lost".to_owned()))
    }

    async fn extend_locks(
        &self,
        keys: &[millstream_model::id::ExecutionKey],
        token: &LockToken,
        ttl: Duration,
    ) -> millstream_stream::StreamResult<Vec<bool>> {
        self.0.extend_locks(keys, token, ttl).await
    }

    async fn release_locks(
        &self,
        keys: &[millstream_model::id::ExecutionKey],
        token: &LockToken,
    ) -> millstream_stream::StreamResult<()> {
        self.0.release_locks(keys, token).await
    }
}

#[tokio::test]
async fn locks_of_lost_answer_are_released() {
    let bench = WorkerBench::new();
    bench.define(COUNTER).await;
    let key = bench.start("counter", "a").await;
    let mut streams = bench.streams.clone();
    streams.locks = Arc::new(LossyLocks(bench.streams.locks.clone()));
    let _worker = bench.worker_on(bench.stores.clone(), streams, bench.options());
    let event = bench.send(&key, "add", r#"{"n":0}"#).await;
    bench.until_event(event, EventStatus::Completed).await;
    bench.until_quiet().await;
    // The lock would last for 15 s.
    let other = LockToken("another-worker".to_owned());
    let free = bench.streams.locks.acquire_locks(&[key], &other, Duration::from_secs(1)).await.unwrap();
    assert_eq!(free, [true]);
}

#[tokio::test]
async fn doorbells_of_dead_worker_are_reclaimed() {
    let bench = WorkerBench::new();
    bench.define(COUNTER).await;
    let key = bench.start("counter", "a").await;
    let reached = Arc::new(AtomicBool::new(false));
    let hook = {
        let reached = reached.clone();
        faulty::on(ServiceFault::Hang, move |call| {
            let here = matches!(call, FaultyCall::Commit(..));
            reached.fetch_or(here, Ordering::SeqCst);
            here
        })
    };
    let doomed =
        bench.worker_on(faulty::stores(&bench.stores, &hook), bench.streams.clone(), bench.options());
    let event = bench.send(&key, "add", r#"{"n":0}"#).await;
    until(&reached).await;
    doomed.kill().await;
    let mut options = bench.hasty();
    options.overdue = Duration::from_secs(600);
    let _heir = bench.worker_with(options);
    let event = bench.until_event(event, EventStatus::Completed).await;
    assert_eq!(event.attempts, 1, "the death of its worker counts as an attempt");
    bench.until_quiet().await;
    bench.assert_sound(&key).await;
}

#[tokio::test]
async fn crash_between_commit_and_ack_is_harmless() {
    let bench = WorkerBench::new();
    bench.define(COUNTER).await;
    let key = bench.start("counter", "a").await;
    let reached = Arc::new(AtomicBool::new(false));
    let hook = {
        let reached = reached.clone();
        faulty::on(ServiceFault::Hang, move |call| {
            let here = matches!(call, FaultyCall::Ack);
            reached.fetch_or(here, Ordering::SeqCst);
            here
        })
    };
    let doomed =
        bench.worker_on(bench.stores.clone(), faulty::streams(&bench.streams, &hook), bench.options());
    let event = bench.send(&key, "add", r#"{"n":0}"#).await;
    until(&reached).await;
    doomed.kill().await;
    let _heir = bench.worker_with(bench.hasty());
    bench.until_quiet().await;
    let event = bench.event(event).await;
    assert_eq!((event.status, event.attempts), (EventStatus::Completed, 0));
    bench.assert_sound(&key).await;
}

#[tokio::test]
async fn live_worker_keeps_its_doorbells() {
    let bench = WorkerBench::new();
    bench.define(COUNTER).await;
    let key = bench.start("counter", "a").await;
    let other = LockToken("another-worker".to_owned());
    bench
        .streams
        .locks
        .acquire_locks(std::slice::from_ref(&key), &other, Duration::from_secs(2))
        .await
        .unwrap();
    // Both reclaim after 300 ms; the lock is held for seven times that.
    let _workers = [bench.worker_with(bench.hasty()), bench.worker_with(bench.hasty())];
    let event = bench.send(&key, "add", r#"{"n":0}"#).await;
    let event = bench.until_event(event, EventStatus::Completed).await;
    assert_eq!(event.attempts, 0, "a kept doorbell was taken for a dead worker's");
}

#[tokio::test]
async fn panicking_event_is_quarantined_and_retryable() {
    let bench = WorkerBench::new();
    bench.define(COUNTER).await;
    let (bad, good) = (bench.start("counter", "bad").await, bench.start("counter", "good").await);
    let (poisoned, tries) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicUsize::new(0)));
    let hook = {
        let (bad, poisoned, tries) = (bad.clone(), poisoned.clone(), tries.clone());
        faulty::on(ServiceFault::Panic, move |call| {
            let hit = poisoned.load(Ordering::SeqCst) && concerns(call, &bad);
            tries.fetch_add(usize::from(hit), Ordering::SeqCst);
            hit
        })
    };
    let first = bench.post(&bad, "add", r#"{"n":0}"#).await;
    let second = bench.post(&bad, "add", r#"{"n":1}"#).await;
    let innocent = bench.post(&good, "add", r#"{"n":0}"#).await;
    bench.ring(&bad).await;
    bench.ring(&good).await;
    let mut options = bench.options();
    options.poison_cap = 3;
    let _worker = bench.worker_on(faulty::stores(&bench.stores, &hook), bench.streams.clone(), options);

    bench.until_event(innocent, EventStatus::Completed).await;
    let dead = bench.until_event(first, EventStatus::Dead).await;
    assert!(dead.error.unwrap().contains("panicked"));
    assert_eq!((dead.attempts, tries.load(Ordering::SeqCst)), (3, 3));
    bench.until_status(&bad, ExecutionStatus::Paused).await;
    assert_eq!(bench.event(second).await.status, EventStatus::Pending, "it is not its turn");
    bench.until_quiet().await;

    poisoned.store(false, Ordering::SeqCst);
    let by = DecisionRecord { actor: None, reason: None };
    let retried = bench.stores.interventions.retry_event(&bad.tenant, first, &by, bench.now()).await.unwrap();
    assert_eq!(retried, RetryVerdict::Accepted { execution: bad.clone() });
    bench.ring(&bad).await;
    bench.until_event(second, EventStatus::Completed).await;
    assert_eq!(bench.execution(&bad).await.state.context["ordered"].as_str(), "true");
    bench.assert_sound(&bad).await;
}

#[tokio::test]
async fn refused_data_fails_alone() {
    let bench = WorkerBench::new();
    bench.define(COUNTER).await;
    let keys: Vec<_> = {
        let mut keys = Vec::new();
        for n in 0..9 {
            keys.push(bench.start("counter", &format!("x{n}")).await);
        }
        keys
    };
    let bad = keys[4].clone();
    let hook = {
        let bad = bad.clone();
        faulty::on(ServiceFault::Corrupt, move |call| concerns(call, &bad))
    };
    let mut events = Vec::new();
    for key in &keys {
        events.push(bench.post(key, "add", r#"{"n":0}"#).await);
        bench.ring(key).await;
    }
    let mut options = bench.options();
    options.poison_cap = 2;
    let _worker = bench.worker_on(faulty::stores(&bench.stores, &hook), bench.streams.clone(), options);
    for (key, event) in keys.iter().zip(events) {
        let status = if *key == bad { EventStatus::Dead } else { EventStatus::Completed };
        let event = bench.until_event(event, status).await;
        assert_eq!(event.attempts > 0, *key == bad, "{key}");
    }
    bench.until_quiet().await;
}

#[tokio::test]
async fn sweep_finds_event_without_doorbell() {
    let bench = WorkerBench::new();
    bench.define(COUNTER).await;
    let _workers = [bench.worker_with(bench.hasty()), bench.worker_with(bench.hasty())];
    let key = bench.start("counter", "a").await;
    // The sweep of a new stream is over before the event exists.
    let warm_up = bench.send(&key, "add", r#"{"n":0}"#).await;
    bench.until_event(warm_up, EventStatus::Completed).await;
    let event = bench.post(&key, "add", r#"{"n":1}"#).await;
    bench.until_event(event, EventStatus::Completed).await;
}

#[tokio::test]
async fn new_stream_is_filled_from_store() {
    let bench = WorkerBench::new();
    bench.define(COUNTER).await;
    let mut events = Vec::new();
    for n in 0..20 {
        let key = bench.start("counter", &format!("x{n}")).await;
        events.push(bench.post(&key, "add", r#"{"n":0}"#).await);
    }
    // Overdue only after 10 s: the unknown generation is what rings.
    let _worker = bench.worker();
    for event in events {
        bench.until_event(event, EventStatus::Completed).await;
    }
}

#[tokio::test]
async fn missing_consumer_group_rings_all_executions() {
    let bench = WorkerBench::new();
    bench.define(COUNTER).await;
    let lost = Arc::new(AtomicBool::new(false));
    let hook = {
        let lost = lost.clone();
        faulty::on(ServiceFault::InDoubt, move |call| {
            matches!(call, FaultyCall::Read) && lost.swap(false, Ordering::SeqCst)
        })
    };
    let _worker =
        bench.worker_on(bench.stores.clone(), faulty::streams(&bench.streams, &hook), bench.options());
    let key = bench.start("counter", "a").await;
    let warm_up = bench.send(&key, "add", r#"{"n":0}"#).await;
    bench.until_event(warm_up, EventStatus::Completed).await;
    let event = bench.post(&key, "add", r#"{"n":1}"#).await;
    lost.store(true, Ordering::SeqCst);
    bench.until_event(event, EventStatus::Completed).await;
}

#[tokio::test]
async fn events_are_decided_during_stream_outage() {
    let bench = WorkerBench::new();
    bench.define(COUNTER).await;
    let hook = faulty::on(ServiceFault::Unavailable, |call| {
        matches!(call, FaultyCall::Publish | FaultyCall::Read | FaultyCall::Ack | FaultyCall::Reclaim)
    });
    let _workers: Vec<_> = (0..2)
        .map(|_| {
            bench.worker_on(bench.stores.clone(), faulty::streams(&bench.streams, &hook), bench.options())
        })
        .collect();
    let key = bench.start("counter", "a").await;
    for n in 0..5 {
        bench.post(&key, "add", &format!(r#"{{"n":{n}}}"#)).await;
    }
    bench.until_done().await;
    bench.assert_sound(&key).await;
}

#[tokio::test]
async fn action_of_dead_worker_gets_higher_token() {
    let (bench, sink) = (WorkerBench::new(), TestSink::start().await);
    sink.set_answers("/call", [SinkAnswer::Hold(200), SinkAnswer::Status(200)]);
    bench
        .define(&format!(
            r#"
name: job
initial: open
states:
  open: {{ on: {{ go: {{ do: [call] }}, called: {{ to: closed }} }} }}
  closed: {{ final: true }}
actions:
  call: {{ http: {{ method: POST, url: "{}", body: 1 }}, on_success: called }}
"#,
            sink.url("/call")
        ))
        .await;
    let doomed = bench.worker_with(bench.hasty());
    let key = bench.start("job", "a").await;
    bench.send(&key, "go", "null").await;
    eventually(Duration::from_secs(20), || async {
        if sink.recorded_calls().len() == 1 { Ok(()) } else { Err("not called") }
    })
    .await;
    doomed.kill().await;
    let _heir = bench.worker_with(bench.hasty());
    bench.until_status(&key, ExecutionStatus::Completed).await;
    let tokens: Vec<_> = sink
        .recorded_calls()
        .iter()
        .map(|call| call.header("millstream-fencing-token").unwrap().to_owned())
        .collect();
    assert_eq!(tokens, ["1", "2"]);
    assert_eq!(bench.applied(&key).await, ["go", "called"]);
}

#[tokio::test]
async fn long_action_keeps_its_lease() {
    let (bench, sink) = (WorkerBench::new(), TestSink::start().await);
    sink.set_answers("/call", [SinkAnswer::Hold(200)]);
    bench
        .define(&format!(
            r#"
name: job
initial: open
states:
  open: {{ on: {{ go: {{ do: [call] }}, close: {{ to: closed }} }} }}
  closed: {{ final: true }}
actions:
  call: {{ http: {{ method: GET, url: "{}" }} }}
"#,
            sink.url("/call")
        ))
        .await;
    let renewals = Arc::new(AtomicUsize::new(0));
    let hook = {
        let renewals = renewals.clone();
        faulty::on(ServiceFault::None, move |call| {
            renewals.fetch_add(usize::from(matches!(call, FaultyCall::Renew)), Ordering::SeqCst);
            false
        })
    };
    let mut options = bench.options();
    options.lease = Duration::from_millis(600);
    let _holder = bench.worker_on(faulty::stores(&bench.stores, &hook), bench.streams.clone(), options);
    let key = bench.start("job", "a").await;
    let go = bench.send(&key, "go", "null").await;
    eventually(Duration::from_secs(20), || async {
        if sink.recorded_calls().len() == 1 { Ok(()) } else { Err("not called") }
    })
    .await;
    let _envious = bench.worker();
    // Ten renewals are more than three lengths of the lease.
    eventually(Duration::from_secs(20), || async {
        let seen = renewals.load(Ordering::SeqCst);
        if seen >= 10 { Ok(()) } else { Err(seen) }
    })
    .await;
    sink.release_held();
    bench.until_event(go, EventStatus::Completed).await;
    assert_eq!(sink.recorded_calls().len(), 1, "another worker performed it too");
}

#[tokio::test]
async fn retention_removes_ended_executions() {
    let bench = WorkerBench::new();
    bench.define(COUNTER).await;
    let worker = bench.worker();
    let (ended, open) = (bench.start("counter", "ended").await, bench.start("counter", "open").await);
    bench.send(&ended, "stop", "null").await;
    bench.until_status(&ended, ExecutionStatus::Completed).await;
    worker.drain().await;
    let mut options = bench.options();
    options.retention.completed = Duration::ZERO;
    options.retention.failed = Duration::ZERO;
    options.retention.cancelled = Duration::ZERO;
    let _worker = bench.worker_with(options);
    eventually(Duration::from_secs(20), || async {
        let keys = [ended.clone(), open.clone()];
        let found = bench.stores.execution_views.find_executions(&keys).await.unwrap();
        match (&found[0], &found[1]) {
            (None, Some(_)) => Ok(()),
            (ended, open) => Err((ended.is_some(), open.is_some())),
        }
    })
    .await;
}
