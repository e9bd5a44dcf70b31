//! Many nodes and little capacity: nodes that wait for an executor delay nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use millstream_model::id::{ExecutionKey, Name};
use millstream_model::lane::Lane;
use millstream_model::status::{ActionStatus, ExecutionStatus};
use millstream_rpc::client::{CallFailure, ExecutorTarget};
use millstream_rpc::proto::{ExecuteNodeRequest, ExecuteNodeResponse};
use millstream_stream::doorbell::Doorbell;
use millstream_testkit::eventually;
use millstream_testkit::eventually::PATIENCE;
use millstream_testkit::sink::TestSink;
use millstream_worker::executors::FixedExecutor;
use millstream_worker::{PerformNodes, WorkerOptions};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::bench::WorkerBench;
use crate::graphs::{create, ended, passed};

/// Calls at the address `slow` last until they are released.
#[derive(Debug)]
struct CrowdedExecutor {
    let_go: Semaphore,
    inside: AtomicUsize,
}

impl CrowdedExecutor {
    fn new() -> Arc<Self> {
        Arc::new(Self { let_go: Semaphore::new(0), inside: AtomicUsize::new(0) })
    }

    async fn is_inside(&self, count: usize) {
        eventually(PATIENCE, || async {
            let inside = self.inside.load(Ordering::SeqCst);
            if inside == count { Ok(()) } else { Err(inside) }
        })
        .await;
    }
}

/// A call under way; it may end by being dropped.
struct CallInProgress<'a>(&'a AtomicUsize);

impl<'a> CallInProgress<'a> {
    fn enter(inside: &'a AtomicUsize) -> Self {
        inside.fetch_add(1, Ordering::SeqCst);
        Self(inside)
    }
}

impl Drop for CallInProgress<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait::async_trait]
impl PerformNodes for CrowdedExecutor {
    async fn execute_node(
        &self,
        executor: &ExecutorTarget,
        request: ExecuteNodeRequest,
        _deadline: Instant,
    ) -> Result<ExecuteNodeResponse, CallFailure> {
        if executor.address == "slow" {
            let _inside = CallInProgress::enter(&self.inside);
            self.let_go.acquire().await.unwrap().forget();
        }
        Ok(passed(&request, "1"))
    }
}

fn executor(role: &str, capacity: u32) -> FixedExecutor {
    FixedExecutor {
        name: Name::parse(role).unwrap(),
        address: role.to_owned(),
        roles: [role.to_owned()].into(),
        labels: Default::default(),
        capacity,
    }
}

fn many(count: usize) -> serde_json::Value {
    let node = |number| serde_json::json!({"id": format!("n{number}"), "agent": {"role": "slow"}});
    let nodes: Vec<_> = (0..count).map(node).collect();
    serde_json::json!({"name": "many", "options": {"max_parallel": 10_000}, "nodes": nodes})
}

async fn leased(bench: &WorkerBench, key: &ExecutionKey) -> usize {
    let actions = bench.stores.execution_views.list_actions(key, None, 10_000).await.unwrap();
    actions.iter().filter(|action| action.status == ActionStatus::Leased).count()
}

#[tokio::test]
async fn full_executor_delays_only_its_role() {
    let (bench, sink, crowd) = (WorkerBench::new(), TestSink::start().await, CrowdedExecutor::new());
    let executors = vec![executor("slow", 2), executor("fast", 4)];
    // Both roles together hold a few slots; all other actions have one.
    let options = WorkerOptions { executors, action_slots: 1, node_slots: 16, ..bench.options() };
    let _worker = bench.worker_performing(crowd.clone(), options);
    let slow = create(&bench, "slow", many(500)).await;
    crowd.is_inside(2).await;

    let job = format!(
        "
name: job
initial: open
states:
  open: {{ on: {{ go: {{ do: [call] }}, called: {{ to: done }} }} }}
  done: {{ final: true }}
actions:
  call: {{ http: {{ method: GET, url: {:?} }}, on_success: called }}
",
        sink.url("/job")
    );
    bench.define(&job).await;
    let other = bench.start("job", "other").await;
    bench.send(&other, "go", "null").await;
    bench.until_status(&other, ExecutionStatus::Completed).await;
    let fast = create(
        &bench,
        "fast",
        serde_json::json!({"name": "fast", "nodes": [
            {"id": "a", "agent": {"role": "fast"}}, {"id": "b", "agent": {"role": "fast"}, "parents": ["a"]}]}),
    )
    .await;
    let (status, _) = ended(&bench, &fast).await;
    assert_eq!(status, ExecutionStatus::Completed);

    assert_eq!(leased(&bench, &slow).await, 3, "two at the executor, one that waits for capacity");
    crowd.let_go.add_permits(500);
    let (status, _) = ended(&bench, &slow).await;
    assert_eq!(status, ExecutionStatus::Completed);
}

#[tokio::test]
async fn stopping_worker_releases_waiting_nodes() {
    let (bench, crowd) = (WorkerBench::new(), CrowdedExecutor::new());
    let executors = vec![executor("slow", 4)];
    let worker = bench
        .worker_performing(crowd.clone(), WorkerOptions { executors: executors.clone(), ..bench.options() });
    let slow = create(&bench, "slow", many(100)).await;
    crowd.is_inside(4).await;
    let draining = tokio::spawn(worker.drain());
    eventually(PATIENCE, || async {
        let leased = leased(&bench, &slow).await;
        if leased == 4 { Ok(()) } else { Err(leased) }
    })
    .await;
    crowd.let_go.add_permits(4);
    draining.await.unwrap();
    assert_eq!(leased(&bench, &slow).await, 0);
    crowd.let_go.add_permits(100);
    let _worker = bench.worker_performing(crowd.clone(), WorkerOptions { executors, ..bench.options() });
    let (status, _) = ended(&bench, &slow).await;
    assert_eq!(status, ExecutionStatus::Completed);
}

/// Renewals of leases come every five seconds: the end of a graph must be noticed sooner.
const PROMPT: Duration = Duration::from_millis(2_500);

#[tokio::test]
async fn cancelled_graph_cancels_running_nodes() {
    let (bench, crowd) = (WorkerBench::new(), CrowdedExecutor::new());
    let executors = vec![executor("slow", 4)];
    let _worker = bench.worker_performing(crowd.clone(), WorkerOptions { executors, ..bench.options() });
    let slow = create(&bench, "slow", many(3)).await;
    crowd.is_inside(3).await;
    let begun = Instant::now();
    bench.send(&slow, "millstream.cancel", r#"{"reason": "enough"}"#).await;
    crowd.is_inside(0).await;
    assert!(begun.elapsed() < PROMPT / 2, "{:?}", begun.elapsed());
    bench.until_done().await;
}

#[tokio::test]
async fn timed_out_graph_cancels_running_nodes() {
    let (bench, crowd) = (WorkerBench::new(), CrowdedExecutor::new());
    let executors = vec![executor("slow", 4)];
    let _worker = bench.worker_performing(crowd.clone(), WorkerOptions { executors, ..bench.options() });
    let mut graph = many(3);
    graph["options"]["timeout"] = serde_json::json!("1s");
    let begun = Instant::now();
    let slow = create(&bench, "slow", graph).await;
    crowd.is_inside(3).await;
    crowd.is_inside(0).await;
    assert!(begun.elapsed() < Duration::from_secs(1) + PROMPT, "{:?}", begun.elapsed());
    let (status, _) = ended(&bench, &slow).await;
    assert_eq!(status, ExecutionStatus::Failed);
    bench.until_done().await;
}

#[tokio::test]
async fn remote_cancellation_stops_running_nodes() {
    let (bench, crowd) = (WorkerBench::new(), CrowdedExecutor::new());
    let lane = Doorbell::Mailbox(crate::bench::key("slow")).lane();
    let others: Vec<Lane> = Lane::all().filter(|other| *other != lane).collect();
    let executors = vec![executor("slow", 4)];
    let _performs =
        bench.worker_performing(crowd.clone(), WorkerOptions { executors, lanes: others, ..bench.options() });
    let _decides = bench.worker();
    let slow = create(&bench, "slow", many(3)).await;
    crowd.is_inside(3).await;
    let begun = Instant::now();
    bench.send(&slow, "millstream.cancel", r#"{"reason": "enough"}"#).await;
    crowd.is_inside(0).await;
    assert!(begun.elapsed() < PROMPT, "{:?}", begun.elapsed());
    bench.until_done().await;
}
