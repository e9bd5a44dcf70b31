//! Graphs, with executors that are functions.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use millstream_model::id::{ExecutionKey, Name};
use millstream_model::status::ExecutionStatus;
use millstream_rpc::client::{CallFailure, ExecutorTarget};
use millstream_rpc::graph_start::{self, GraphStart};
use millstream_rpc::proto::{self, ExecuteNodeRequest, ExecuteNodeResponse};
use millstream_store::event_log::{AppendRequest, Appended};
use millstream_store::graph_store::{NodeFilter, NodeView};
use millstream_testkit::eventually;
use millstream_testkit::eventually::PATIENCE;
use millstream_worker::executors::FixedExecutor;
use millstream_worker::{PerformNodes, WorkerOptions};
use millstream_workflow::graph::{GraphSpec, NodeStatus};
use tokio::time::Instant;

use crate::bench::{WorkerBench, key};
use crate::faulty::{self, FaultyCall, ServiceFault};

type NodeAnswerFn = dyn Fn(&ExecuteNodeRequest) -> Result<ExecuteNodeResponse, CallFailure> + Send + Sync;

/// Answers through a function, and records its requests.
pub(crate) struct ScriptedNodes {
    answer: Box<NodeAnswerFn>,
    asked: Mutex<Vec<(String, u32)>>,
}

impl std::fmt::Debug for ScriptedNodes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Desk").finish_non_exhaustive()
    }
}

#[async_trait::async_trait]
impl PerformNodes for ScriptedNodes {
    async fn execute_node(
        &self,
        _executor: &ExecutorTarget,
        request: ExecuteNodeRequest,
        _deadline: Instant,
    ) -> Result<ExecuteNodeResponse, CallFailure> {
        self.asked.lock().unwrap().push((request.node_id.clone(), request.attempt));
        (self.answer)(&request)
    }
}

pub(crate) fn desk(
    answer: impl Fn(&ExecuteNodeRequest) -> Result<ExecuteNodeResponse, CallFailure> + Send + Sync + 'static,
) -> Arc<ScriptedNodes> {
    Arc::new(ScriptedNodes { answer: Box::new(answer), asked: Mutex::default() })
}

pub(crate) fn passed(request: &ExecuteNodeRequest, results: &str) -> ExecuteNodeResponse {
    ExecuteNodeResponse {
        workflow_id: request.workflow_id.clone(),
        node_id: request.node_id.clone(),
        status: proto::NodeStatus::Pass.into(),
        results_json: results.to_owned(),
        ..Default::default()
    }
}

pub(crate) fn options(bench: &WorkerBench) -> WorkerOptions {
    let executor = FixedExecutor {
        name: Name::parse("desk").unwrap(),
        address: "http://127.0.0.1:1".to_owned(),
        roles: Default::default(),
        labels: Default::default(),
        capacity: 64,
    };
    WorkerOptions { executors: vec![executor], ..bench.options() }
}

pub(crate) async fn create(bench: &WorkerBench, id: &str, json: serde_json::Value) -> ExecutionKey {
    let spec: GraphSpec = serde_json::from_value(json).unwrap();
    let new = GraphStart {
        key: key(id),
        spec,
        event_ids: [bench.event_id(), bench.event_id()],
        input_hash: [0; 32],
        idempotency: None,
        parent: None,
        actor: None,
        traceparent: None,
    };
    let new = graph_start::start_graph(new, bench.now()).unwrap();
    let appended =
        bench.stores.events.append(&[AppendRequest::Start(Box::new(new))], bench.now()).await.unwrap();
    assert!(matches!(appended[..], [Appended::Accepted { .. }]), "{appended:?}");
    bench.ring(&key(id)).await;
    key(id)
}

pub(crate) async fn ended(
    bench: &WorkerBench,
    key: &ExecutionKey,
) -> (ExecutionStatus, BTreeMap<String, NodeView>) {
    // Not the nodes: reading thousands of them would take the time that the graph needs on a busy machine.
    let status = eventually(2 * PATIENCE, || async {
        let view = bench.execution(key).await;
        if view.state.phase.is_ended() { Ok(view.status) } else { Err((view.status, view.state.seq)) }
    })
    .await;
    (status, nodes(bench, key).await)
}

async fn nodes(bench: &WorkerBench, key: &ExecutionKey) -> BTreeMap<String, NodeView> {
    let all = bench.stores.graph_views.list_nodes(key, &NodeFilter::default(), None, 10_000).await.unwrap();
    all.into_iter().map(|node| (node.node.to_string(), node)).collect()
}

#[tokio::test]
async fn diamond_graph_runs_in_order() {
    let bench = WorkerBench::new();
    let desk = desk(|request| Ok(passed(request, &format!("{{\"of\":{:?}}}", request.node_id))));
    let _worker = bench.worker_performing(desk.clone(), options(&bench));
    let graph = create(
        &bench,
        "diamond",
        serde_json::json!({"name": "diamond", "nodes": [
            {"id": "top"}, {"id": "left", "parents": ["top"]}, {"id": "right", "parents": ["top"]},
            {"id": "end", "parents": ["left", "right"], "task": {"dependencies": {"a": "left"}}},
        ]}),
    )
    .await;
    let (status, nodes) = ended(&bench, &graph).await;
    assert_eq!(status, ExecutionStatus::Completed, "{nodes:#?}");
    let asked = desk.asked.lock().unwrap().clone();
    assert_eq!((asked.len(), asked[0].0.as_str(), asked[3].0.as_str()), (4, "top", "end"), "{asked:?}");
    assert!(nodes.values().all(|node| node.status == NodeStatus::Pass), "{nodes:#?}");
    assert_eq!(nodes["end"].result.as_ref().unwrap().as_str(), r#"{"of":"end"}"#);
    assert_eq!(nodes["end"].executor.as_deref(), Some("desk"));
}

#[tokio::test]
async fn only_node_crash_is_retried() {
    let bench = WorkerBench::new();
    let desk = desk(|request| match (request.node_id.as_str(), request.attempt) {
        ("shaky", 1) => Err(CallFailure::Crashed("gone".to_owned())),
        ("wrong", _) => {
            Ok(ExecuteNodeResponse { status: proto::NodeStatus::Fail.into(), ..passed(request, "") })
        }
        _ => Ok(passed(request, "1")),
    });
    let _worker = bench.worker_performing(desk.clone(), options(&bench));
    let graph = create(
        &bench,
        "retries",
        serde_json::json!({
            "name": "retries",
            "options": {"node": {"retry": {"attempts": 3, "backoff": "10ms"}}},
            "nodes": [{"id": "shaky"}, {"id": "wrong"}, {"id": "after", "parents": ["wrong"]},
                      {"id": "anyway", "parents": ["wrong", "shaky"], "on_failure": "continue", "is_final": true}],
        }),
    )
    .await;
    let (status, nodes) = ended(&bench, &graph).await;
    assert_eq!(status, ExecutionStatus::Completed, "{nodes:#?}");
    let seen: Vec<(&str, NodeStatus, u32)> =
        nodes.iter().map(|(id, node)| (id.as_str(), node.status, node.attempt)).collect();
    let expected = [
        ("after", NodeStatus::Skipped, 0),
        ("anyway", NodeStatus::Pass, 1),
        ("shaky", NodeStatus::Pass, 2),
        ("wrong", NodeStatus::Fail, 1),
    ];
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn wide_graph_performs_each_node_once() {
    let bench = WorkerBench::new();
    let desk = desk(|request| Ok(passed(request, "1")));
    let _worker = bench.worker_performing(desk.clone(), options(&bench));
    let mut list = vec![serde_json::json!({"id": "top"})];
    list.extend((0..2_000).map(|number| serde_json::json!({"id": format!("n{number}"), "parents": ["top"]})));
    let parents: Vec<String> = (0..2_000).map(|number| format!("n{number}")).collect();
    list.push(serde_json::json!({"id": "join", "parents": parents}));
    let graph = create(&bench, "wide", serde_json::json!({"name": "wide", "nodes": list})).await;
    let (status, nodes) = ended(&bench, &graph).await;
    assert_eq!(status, ExecutionStatus::Completed);
    assert!(nodes.values().all(|node| node.status == NodeStatus::Pass));
    let mut asked = desk.asked.lock().unwrap().clone();
    asked.sort();
    let all = asked.len();
    asked.dedup();
    assert_eq!((all, asked.len()), (2_002, 2_002));
}

#[tokio::test]
async fn node_waits_for_a_suitable_executor() {
    let bench = WorkerBench::new();
    let desk = desk(|request| Ok(passed(request, "1")));
    let _worker = bench.worker_performing(desk.clone(), WorkerOptions { ..bench.options() });
    let graph = create(&bench, "late", serde_json::json!({"name": "late", "nodes": [{"id": "only"}]})).await;
    eventually(PATIENCE, || async {
        let nodes = nodes(&bench, &graph).await;
        if nodes["only"].status == NodeStatus::Running { Ok(()) } else { Err(nodes) }
    })
    .await;
    let executor = millstream_store::executor_store::RegisteredExecutor {
        tenant: graph.tenant.clone(),
        name: Name::parse("desk").unwrap(),
        address: "http://127.0.0.1:1".to_owned(),
        roles: Default::default(),
        labels: Default::default(),
        capacity: 1,
        load: 0,
    };
    bench.stores.executors.record_executor_heartbeats(&[executor], bench.now()).await.unwrap();
    let (status, _) = ended(&bench, &graph).await;
    assert_eq!(status, ExecutionStatus::Completed);
    assert!(bench.now().since(bench.execution(&graph).await.created_at) < Duration::from_secs(20));
}

#[tokio::test]
async fn brief_store_outage_costs_no_node_attempt() {
    let bench = WorkerBench::new();
    let answer = |request: &ExecuteNodeRequest| {
        Ok(ExecuteNodeResponse { logs: "done\n".to_owned(), ..passed(request, "1") })
    };
    let desk = desk(answer);
    let (dispatches, logs) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let first = |calls: &AtomicUsize| calls.fetch_add(1, Ordering::SeqCst) == 0;
    let hook = faulty::on(ServiceFault::Unavailable, move |call| {
        (matches!(call, FaultyCall::Dispatch) && first(&dispatches))
            || (matches!(call, FaultyCall::KeepLogs) && first(&logs))
    });
    let stores = faulty::stores(&bench.stores, &hook);
    let _worker = bench.worker_performing_on(stores, desk.clone(), options(&bench));
    let graph =
        create(&bench, "hiccup", serde_json::json!({"name": "hiccup", "nodes": [{"id": "only"}]})).await;
    let (status, nodes) = ended(&bench, &graph).await;
    assert_eq!((status, nodes["only"].attempt), (ExecutionStatus::Completed, 1), "{nodes:#?}");
    assert_eq!(desk.asked.lock().unwrap().len(), 1, "it is performed once");
}
