//! Task leases that do not reach their worker: they are released immediately, without counting an attempt.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use millstream_model::id::WorkerId;
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_store::action_store::{
    ActionStore, Lease, LeaseHeartbeat, LeasePulse, LeasedAction, SettledBatch, Settlement,
};
use millstream_store::execution_store::LeaseGrant;
use millstream_store::{StoreError, StoreResult, Stores};
use millstream_testkit::eventually;
use serde_json::json;
use tokio::sync::Notify;

use crate::bench::{Bench, open_options, post, yaml};

/// Two types of tasks; the input of `label` is rendered when it is leased.
const WORK: &str = "
name: work
initial: new
states:
  new: { on: { go: { do: [first, label, sort] } } }
actions:
  first: { task: { type: first, input: 1 } }
  label: { task: { type: label, input: { of: results.first.name } }, needs: [first] }
  sort: { task: { type: sort, input: 1 } }
";

/// The action store with a failure in one place.
struct Troubled {
    inner: Arc<dyn ActionStore>,
    /// Recording an input fails, or never returns.
    refuses_inputs: AtomicBool,
    holds_inputs: AtomicBool,
    held: Notify,
    /// Leases for a worker called `bad` fail; those of others are slow then.
    refuses_bad: AtomicBool,
    leases: AtomicUsize,
}

impl Troubled {
    fn over(inner: Arc<dyn ActionStore>) -> Self {
        Self {
            inner,
            refuses_inputs: AtomicBool::default(),
            holds_inputs: AtomicBool::default(),
            held: Notify::new(),
            refuses_bad: AtomicBool::default(),
            leases: AtomicUsize::default(),
        }
    }
}

fn down() -> StoreError {
    StoreError::Unavailable("down".to_owned())
}

#[async_trait::async_trait]
impl ActionStore for Troubled {
    async fn lease_each(
        &self,
        takers: &[WorkerId],
        grant: &LeaseGrant,
        now: Timestamp,
    ) -> StoreResult<Vec<LeasedAction>> {
        self.leases.fetch_add(1, Ordering::Relaxed);
        if self.refuses_bad.load(Ordering::Relaxed) {
            if takers.iter().any(|taker| taker.as_str() == "bad") {
                return Err(down());
            }
            let leased = self.inner.lease_each(takers, grant, now).await;
            // The answer is delayed.
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            return leased;
        }
        self.inner.lease_each(takers, grant, now).await
    }

    async fn renew_leases(
        &self,
        beats: &[LeaseHeartbeat],
        worker: &WorkerId,
        grant: &LeaseGrant,
        now: Timestamp,
    ) -> StoreResult<Vec<LeasePulse>> {
        self.inner.renew_leases(beats, worker, grant, now).await
    }

    async fn record_inputs(&self, inputs: &[(Lease, RawJson)]) -> StoreResult<Vec<bool>> {
        if self.refuses_inputs.swap(false, Ordering::Relaxed) {
            return Err(down());
        }
        if self.holds_inputs.swap(false, Ordering::Relaxed) {
            self.held.notify_one();
            return std::future::pending().await;
        }
        self.inner.record_inputs(inputs).await
    }

    async fn settle_actions(
        &self,
        worker: &WorkerId,
        batch: &[Settlement],
        grant: &LeaseGrant,
        now: Timestamp,
    ) -> StoreResult<SettledBatch> {
        self.inner.settle_actions(worker, batch, grant, now).await
    }

    async fn release_leases(&self, leases: &[Lease], now: Timestamp) -> StoreResult<()> {
        self.inner.release_leases(leases, now).await
    }
}

async fn troubled() -> (Bench, Arc<Troubled>) {
    let mut trouble = None;
    let bench = Bench::with(open_options(), |mut stores, streams| {
        let troubled = Arc::new(Troubled::over(stores.actions.clone()));
        stores.actions = troubled.clone();
        trouble = Some(troubled);
        (stores, streams)
    });
    assert!(bench.send(yaml("/v1/definitions", WORK)).await.status.is_success());
    let start = json!({"definition": "work", "execution_id": "w-1", "events": [{"name": "go"}]});
    assert_eq!(bench.post("/v1/executions", &start).await.status, 201);
    bench.decide("w-1").await;
    let first = bench.post("/v1/tasks/lease", &json!({"types": ["first"], "wait": 10})).await.json();
    let done = json!({"token": first["tasks"][0]["token"], "result": {"name": "x"}});
    assert_eq!(bench.post("/v1/tasks/default%2Fw-1%2F2%2Ffirst/complete", &done).await.status, 200);
    (bench, trouble.unwrap())
}

/// The task as its first attempt, without the wait of minutes for a lease to expire.
async fn taken_at_once(bench: &Bench, kind: &str) {
    let wish = json!({"types": [kind], "wait": 10, "worker": "next"});
    let task = bench.post("/v1/tasks/lease", &wish).await.json()["tasks"][0].clone();
    assert_eq!((&task["type"], &task["attempt"]), (&json!(kind), &json!(1)), "{task}");
}

#[tokio::test]
async fn unprepared_tasks_are_released() {
    let (bench, trouble) = troubled().await;
    trouble.refuses_inputs.store(true, Ordering::Relaxed);
    let wish = json!({"types": ["label", "sort"], "max": 5, "wait": 10, "worker": "first"});
    bench.post("/v1/tasks/lease", &wish).await.problem(503, "store-unavailable");
    taken_at_once(&bench, "label").await;
    taken_at_once(&bench, "sort").await;
}

#[tokio::test]
async fn tasks_of_disconnected_worker_are_released() {
    let (bench, trouble) = troubled().await;
    trouble.holds_inputs.store(true, Ordering::Relaxed);
    let gone = tokio::spawn({
        let app = bench.app.clone();
        let wish = json!({"types": ["label"], "wait": 10, "worker": "first"});
        async move { tower::ServiceExt::oneshot(app, post("/v1/tasks/lease", &wish)).await.unwrap() }
    });
    trouble.held.notified().await;
    gone.abort();
    let _ = gone.await;
    taken_at_once(&bench, "label").await;
}

#[tokio::test]
async fn failed_task_lease_fails_alone() {
    let (bench, trouble) = troubled().await;
    trouble.refuses_bad.store(true, Ordering::Relaxed);
    let asking = |kind: &'static str, worker: &'static str| {
        let app = bench.app.clone();
        let wish = json!({"types": [kind], "wait": 10, "worker": worker});
        async move {
            let answer = tower::ServiceExt::oneshot(app, post("/v1/tasks/lease", &wish)).await.unwrap();
            crate::bench::Answer::of(answer).await.json()
        }
    };
    let bad = tokio::spawn(asking("label", "bad"));
    let good = eventually(Duration::from_secs(20), || async {
        let answer = asking("sort", "good").await;
        if answer["tasks"][0].is_null() { Err(answer) } else { Ok(answer["tasks"][0].clone()) }
    })
    .await;
    assert_eq!((&good["type"], &good["attempt"]), (&json!("sort"), &json!(1)), "{good}");
    bad.abort();
}

/// An ingress of an older build, for example, with a worker that waits at it.
#[tokio::test]
async fn unpreparable_task_lease_is_throttled() {
    let (bench, trouble) = troubled().await;
    let other = Bench::with(open_options(), |own, streams| {
        (Stores { definitions: own.definitions, ..bench.stores.clone() }, streams)
    });
    let before = trouble.leases.load(Ordering::Relaxed);
    let wish = json!({"types": ["sort"], "wait": 1, "worker": "first"});
    assert_eq!(other.post("/v1/tasks/lease", &wish).await.json()["tasks"], json!([]));
    let leases = trouble.leases.load(Ordering::Relaxed) - before;
    assert!((1..20).contains(&leases), "{leases} leases in a second");
    taken_at_once(&bench, "sort").await;
}
