//! Quotas of the worker: children stop at a depth and wait for their rate and for capacity, attempts end at a
//! time limit, and the actions of one tenant leave slots to another.

use std::sync::Arc;

use millstream_model::document::SourceFormat;
use millstream_model::id::{ExecutionId, ExecutionKey, ItemId, Name, TenantId};
use millstream_model::quota::{QuotaName, QuotaSet, QuotaSettings, QuotaValue};
use millstream_model::raw::RawJson;
use millstream_model::status::{ActionStatus, EventStatus, ExecutionStatus};
use millstream_people::assignment::{NewQueueItem, QueueConfig};
use millstream_rpc::client::{CallFailure, ExecutorTarget};
use millstream_rpc::proto::{ExecuteNodeRequest, ExecuteNodeResponse};
use millstream_store::assignments::ItemFilter;
use millstream_store::run_store::RunFilter;
use millstream_store::views::{ActionRecord, ExecutionFilter, ExecutionView};
use millstream_testkit::TestSink;
use millstream_testkit::eventually;
use millstream_testkit::eventually::PATIENCE;
use millstream_testkit::sink::SinkAnswer;
use millstream_worker::{PerformNodes, WorkerOptions};
use millstream_workflow::graph::NodeStatus;
use serde_json::json;
use tokio::time::Instant;

use crate::bench::WorkerBench;
use crate::graphs;

/// Starts itself as soon as it is created.
const ENDLESS: &str = r#"
name: endless
initial: new
states:
  new: { on: { go: { to: parent, do: [again] } }, after: [ { in: 1ms, send: go } ] }
  parent: { on: { refused: { to: refused } } }
  refused: { on: { look: {} } }
actions:
  again: { start: { definition: endless }, on_failure: refused }
"#;

fn within(bench: &WorkerBench, name: QuotaName, most: u64) -> WorkerOptions {
    let every_tenant = QuotaSet::default().with(name, QuotaValue::AtMost(most));
    WorkerOptions { quotas: QuotaSettings { every_tenant, ..QuotaSettings::default() }, ..bench.options() }
}

async fn executions(bench: &WorkerBench, state: Option<&str>) -> Vec<ExecutionView> {
    let state = state.map(|state| Name::parse(state).unwrap());
    let filter = ExecutionFilter { definition: None, state, status: None };
    let views = &bench.stores.execution_views;
    views.list_executions(&TenantId::default_tenant(), &filter, None, 100).await.unwrap()
}

#[tokio::test]
async fn recursive_children_stop_at_depth_quota() {
    let bench = WorkerBench::new();
    bench.define(ENDLESS).await;
    let _worker = bench.worker_with(within(&bench, QuotaName::ChildDepth, 3));
    bench.start("endless", "root").await;
    let deepest = eventually(PATIENCE, || async {
        executions(&bench, Some("refused")).await.pop().ok_or("nothing was refused")
    })
    .await;
    assert_eq!(executions(&bench, None).await.len(), 4, "the root and three generations");
    let history = bench.history(&deepest.execution).await;
    let told = history.iter().find(|entry| entry.transition.name.as_str() == "refused").unwrap();
    let payload = told.payload.as_str();
    assert!(payload.contains(r#""class":"quota""#) && payload.contains("child_depth = 3"), "{payload}");
}

#[tokio::test]
async fn children_over_rate_start_later() {
    let bench = WorkerBench::new();
    bench.define(ENDLESS).await;
    let mut options = within(&bench, QuotaName::ChildDepth, 4);
    let every_tenant = options.quotas.every_tenant.clone();
    options.quotas.every_tenant = every_tenant.with(QuotaName::ChildrenPerSecond, QuotaValue::AtMost(2));
    let _worker = bench.worker_with(options);
    bench.start("endless", "root").await;
    eventually(PATIENCE, || async {
        executions(&bench, Some("refused")).await.pop().ok_or("nothing was refused")
    })
    .await;
    let all = executions(&bench, None).await;
    assert_eq!(all.len(), 5, "none was lost to the rate");
    let mut waited = 0;
    for view in all {
        let actions = bench.stores.execution_views.list_actions(&view.execution, None, 10).await.unwrap();
        let error = |action: &ActionRecord| action.error.as_ref().map_or("", RawJson::as_str).to_owned();
        waited += actions.iter().filter(|action| error(action).contains("children_per_second = 2")).count();
    }
    assert!(waited > 0, "the burst is two, and four were started");
}

#[tokio::test]
async fn attempt_ends_at_time_quota() {
    let (bench, sink) = (WorkerBench::new(), TestSink::start().await);
    sink.set_answers("/tar", [SinkAnswer::Hold(200)]);
    let definition = r#"
name: patient
initial: a
states: { a: { on: { go: { do: [act] }, late: { to: b } } }, b: { final: true } }
actions:
  act: { http: { method: POST, url: "URL" }, timeout: 36500d, retry: { attempts: 1 }, on_failure: late }
"#;
    bench.define(&definition.replace("URL", &sink.url("/tar"))).await;
    let _worker = bench.worker_with(within(&bench, QuotaName::MaxActionTimeout, 50));
    let key = bench.start("patient", "a").await;
    let go = bench.send(&key, "go", "{}").await;
    bench.until_event(go, EventStatus::Completed).await;
    bench.until_state(&key, "b").await;
}

/// Calls a path, and is done when it answers.
const CALLER: &str = r#"
name: caller
initial: a
states: { a: { on: { go: { do: [call] }, called: { to: b } } }, b: { final: true } }
actions:
  call: { http: { method: POST, url: "URL" }, timeout: 10m, on_success: called }
"#;

#[tokio::test]
async fn slow_tenant_leaves_slots_to_others() {
    let (bench, sink) = (WorkerBench::new(), TestSink::start().await);
    sink.set_answers("/tar", [SinkAnswer::Hold(200)]);
    bench.define(&CALLER.replace("URL", &sink.url("/tar"))).await;
    let quiet = TenantId::parse("quiet").unwrap();
    bench.define_for(&quiet, &CALLER.replace("URL", &sink.url("/ok"))).await;
    let _worker = bench.worker_with(WorkerOptions { action_slots: 4, ..bench.options() });
    let mut noisy = Vec::new();
    for n in 0..16 {
        let key = bench.start("caller", &format!("n-{n}")).await;
        let go = bench.send(&key, "go", "{}").await;
        bench.until_event(go, EventStatus::Processing).await;
        noisy.push(key);
    }
    eventually(PATIENCE, || async {
        let calls = sink.calls_to("/tar").len();
        if calls >= 3 { Ok(()) } else { Err(calls) }
    })
    .await;
    let key = ExecutionKey { tenant: quiet, execution: ExecutionId::parse("q-1").unwrap() };
    let key = bench.start_key("caller", key).await;
    bench.send(&key, "go", "{}").await;
    bench.until_status(&key, ExecutionStatus::Completed).await;
    assert_eq!(sink.calls_to("/tar").len(), 3, "three of four slots are the quota");
    sink.release_held();
    for key in &noisy {
        bench.until_status(key, ExecutionStatus::Completed).await;
    }
}

async fn until_action_waits(bench: &WorkerBench, key: &ExecutionKey, quota: &str) -> ActionRecord {
    eventually(PATIENCE, || async {
        let actions = bench.stores.execution_views.list_actions(key, None, 10).await.unwrap();
        let waits = |action: &ActionRecord| {
            let error = action.error.as_ref().map_or("", RawJson::as_str);
            action.status == ActionStatus::Ready
                && error.contains(r#""class":"quota""#)
                && error.contains(quota)
        };
        actions.iter().find(|action| waits(action)).cloned().ok_or(actions)
    })
    .await
}

#[tokio::test]
async fn child_waits_at_open_executions_quota() {
    let bench = WorkerBench::new();
    bench
        .define("{name: child, initial: a, states: {a: {on: {end: {to: b}}, after: [{in: 1ms, send: end}]}, b: {final: true}}}")
        .await;
    bench
        .define(
            "{name: parent, initial: a, states: {a: {on: {go: {do: [begin]}, ended: {to: b}}}, b: {final: true}}, \
              actions: {begin: {start: {definition: child}, on_success: ended}}}",
        )
        .await;
    bench.define("{name: other, initial: a, states: {a: {on: {end: {to: b}}}, b: {final: true}}}").await;
    let _worker = bench.worker_with(within(&bench, QuotaName::OpenExecutions, 2));
    let other = bench.start("other", "other").await;
    let parent = bench.start("parent", "parent").await;
    bench.send(&parent, "go", "{}").await;
    let waits = until_action_waits(&bench, &parent, "open_executions = 2").await;
    assert_eq!(waits.attempts, 0, "waiting does not count as an attempt");
    assert_eq!(executions(&bench, None).await.len(), 2);
    bench.send(&other, "end", "{}").await;
    bench.until_status(&parent, ExecutionStatus::Completed).await;
}

#[tokio::test]
async fn item_waits_at_queue_items_quota() {
    let bench = WorkerBench::new();
    let tenant = TenantId::default_tenant();
    let config = QueueConfig::parse("{name: questions}", SourceFormat::Yaml).unwrap();
    bench.stores.queues.put_queue(&tenant, &config, bench.now()).await.unwrap();
    bench
        .define(
            "{name: asker, initial: a, states: {a: {on: {go: {do: [ask]}}}}, \
              actions: {ask: {task_for: {queue: questions, payload: {n: '7'}}}}}",
        )
        .await;
    let item = |id: &str| NewQueueItem {
        id: ItemId::parse(id).unwrap(),
        payload: RawJson::null(),
        own: Default::default(),
        due_at: None,
        waiter: None,
    };
    let queue = Name::parse("questions").unwrap();
    bench.stores.items.import_items(&tenant, &queue, &[item("first")], bench.now()).await.unwrap();
    let worker = bench.worker_with(within(&bench, QuotaName::QueueItems, 1));
    let key = bench.start("asker", "a-1").await;
    bench.send(&key, "go", "{}").await;
    until_action_waits(&bench, &key, "queue_items = 1").await;
    let asked = || async {
        bench.stores.assignment_views.list_items(&tenant, &ItemFilter::default(), None, 10).await
    };
    assert_eq!(asked().await.unwrap().len(), 1);
    worker.kill().await;
    let _worker = bench.worker_with(within(&bench, QuotaName::QueueItems, 2));
    eventually(PATIENCE, || async {
        let items = asked().await.unwrap().len();
        if items == 2 { Ok(()) } else { Err(items) }
    })
    .await;
}

#[tokio::test]
async fn device_run_waits_at_open_runs_quota() {
    let bench = WorkerBench::new();
    bench
        .define(
            "{name: filmer, initial: a, states: {a: {on: {go: {do: [film]}}}}, \
              actions: {film: {device: {kind: film}}}}",
        )
        .await;
    let worker = bench.worker_with(within(&bench, QuotaName::OpenRuns, 1));
    let runs = || async {
        let tenant = TenantId::default_tenant();
        bench.stores.run_views.list_runs(&tenant, &RunFilter::default(), None, 10).await.unwrap().len()
    };
    let until_runs = async |count| {
        eventually(PATIENCE, || async {
            let open = runs().await;
            if open == count { Ok(()) } else { Err(open) }
        })
        .await;
    };
    let [first, second] = [bench.start("filmer", "f-1").await, bench.start("filmer", "f-2").await];
    bench.send(&first, "go", "{}").await;
    until_runs(1).await;
    bench.send(&second, "go", "{}").await;
    let waits = until_action_waits(&bench, &second, "open_runs = 1").await;
    assert_eq!(waits.attempts, 0, "waiting does not count as an attempt");
    assert_eq!(runs().await, 1);
    worker.kill().await;
    let _worker = bench.worker_with(within(&bench, QuotaName::OpenRuns, 2));
    until_runs(2).await;
}

/// An executor that never answers.
#[derive(Debug)]
struct SilentExecutor;

#[async_trait::async_trait]
impl PerformNodes for SilentExecutor {
    async fn execute_node(
        &self,
        _executor: &ExecutorTarget,
        _request: ExecuteNodeRequest,
        deadline: Instant,
    ) -> Result<ExecuteNodeResponse, CallFailure> {
        tokio::time::sleep_until(deadline).await;
        Err(CallFailure::TimedOut)
    }
}

#[tokio::test]
async fn executor_call_ends_at_time_quota() {
    let bench = WorkerBench::new();
    let every_tenant = QuotaSet::default().with(QuotaName::MaxActionTimeout, QuotaValue::AtMost(50));
    let quotas = QuotaSettings { every_tenant, ..QuotaSettings::default() };
    let options = WorkerOptions { quotas, ..graphs::options(&bench) };
    let _worker = bench.worker_performing(Arc::new(SilentExecutor), options);
    let node = json!({"id": "a", "options": {"timeout": "36500d", "retry": {"attempts": 1}}});
    let graph = graphs::create(&bench, "g", json!({"name": "g", "nodes": [node]})).await;
    let (status, nodes) = graphs::ended(&bench, &graph).await;
    assert_eq!((status, nodes["a"].status), (ExecutionStatus::Failed, NodeStatus::Timeout));
}
