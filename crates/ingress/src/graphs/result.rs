//! The outcome of an attempt, as its executor reports it: settled in the same way as by the worker.

use millstream_expr::ExprBudget;
use millstream_model::attempt::AttemptOutcome as Performed;
use millstream_model::entropy;
use millstream_model::id::ExecutionKey;
use millstream_model::raw::RawJson;
use millstream_model::status::ActionStatus;
use millstream_store::action_store::{ActionAttempt, Lease, SettleVerdict, Settlement};
use millstream_store::graph_store::{ExecutorLogText, NodeView};
use millstream_workflow::action;
use millstream_workflow::graph::{self, ExecutorAnswer, NodeEdit, NodeId, NodeStatus};

use super::GraphDeps;
use super::attempt::{AttemptReference, NodeAttempt, check_token, resolve_attempt, token_lost};
use super::current::load_current_graph;
use super::{known_results, nodes, run_off_runtime};
use crate::refusal::RequestRefusal;
use crate::trace::TraceContext;

/// An outcome report of an executor.
#[derive(Debug)]
pub(crate) struct NodeResultReport {
    pub(crate) status: NodeStatus,
    pub(crate) result: Option<RawJson>,
    pub(crate) error: Option<String>,
    pub(crate) edits: Vec<NodeEdit>,
    pub(crate) logs: String,
}

/// Records the outcome; returns the node as the store knows it right after, possibly before the graph has
/// decided the outcome.
pub(crate) async fn report_result(
    deps: &GraphDeps,
    trace: &TraceContext,
    graph: &ExecutionKey,
    node: &NodeId,
    said: &AttemptReference,
    report: NodeResultReport,
) -> Result<NodeView, RequestRefusal> {
    let attempt = resolve_attempt(deps, graph, node, said).await?;
    let answer = ExecutorAnswer {
        status: report.status,
        attempt: attempt.input.attempt,
        result: report.result,
        error: report.error,
        edits: report.edits,
        known: Vec::new(),
        executor: attempt.node.executor.clone(),
    };
    if is_repeat(&attempt, said, &answer) {
        return Ok(attempt.node);
    }
    check_token(&attempt, said.token)?;
    let known = load_known_for_edits(deps, graph, &answer).await?;
    let answer = ExecutorAnswer { known, ..answer };
    settle_attempt(deps, trace, attempt, said, &answer).await?;
    keep_logs(deps, graph, node, answer.attempt, report.logs).await;
    nodes::find_node(deps, graph, node).await
}

/// Whether this very outcome is recorded already: the answer to the first report was lost.
fn is_repeat(attempt: &NodeAttempt, said: &AttemptReference, answer: &ExecutorAnswer) -> bool {
    let action = &attempt.action;
    if action.status != ActionStatus::Succeeded || action.epoch != said.token.epoch() {
        return false;
    }
    let recorded = action.result.as_ref().and_then(|result| result.decode::<ExecutorAnswer>().ok());
    let told = |answer: ExecutorAnswer| ExecutorAnswer { known: Vec::new(), executor: None, ..answer };
    recorded.is_some_and(|recorded| told(recorded) == told(answer.clone()))
}

async fn load_known_for_edits(
    deps: &GraphDeps,
    key: &ExecutionKey,
    answer: &ExecutorAnswer,
) -> Result<Vec<(NodeId, RawJson)>, RequestRefusal> {
    if answer.edits.is_empty() || answer.status != NodeStatus::Pass {
        return Ok(Vec::new());
    }
    let graph = load_current_graph(deps, key).await?.graph;
    let edits = answer.edits.clone();
    // Edits that do not fit are refused by the decision, which then fails the node.
    let bytes = graph.nodes.len() * 256 + graph::edit_check_bytes(&edits);
    let missing = run_off_runtime(&deps.machines.compilations, bytes, move || {
        let patch = graph::build_patch(&graph, &edits, &ExprBudget::default());
        patch.map(|patch| known_results::missing_results(&graph, patch)).unwrap_or_default()
    });
    let missing = missing.await?;
    known_results::load_known_results(deps, key, &missing).await
}

async fn settle_attempt(
    deps: &GraphDeps,
    trace: &TraceContext,
    attempt: NodeAttempt,
    said: &AttemptReference,
    answer: &ExecutorAnswer,
) -> Result<(), RequestRefusal> {
    let action = &attempt.action;
    let whose = ActionAttempt { traceparent: Some(&trace.traceparent), ..action.as_attempt() };
    let performed = Performed::Success { result: RawJson::from_value(answer) };
    let now = deps.clock.now();
    let policy = graph::dispatch_policy();
    let outcome = action::conclude_attempt(&policy, whose, performed, 0.0, now, &mut || {
        entropy::event_id(now, &*deps.entropy)
    });
    let lease = Lease { key: action.key.clone(), epoch: said.token.epoch() };
    let settlement = Settlement { lease, event_id: action.event_id, outcome };
    match deps.reports.settle_task(settlement).await? {
        SettleVerdict::Recorded { event: _ } => Ok(()),
        SettleVerdict::Stale => {
            let key = action.key.clone();
            match deps.reports.find_task(key).await? {
                Some(action) => Err(token_lost(&NodeAttempt { action, ..attempt }, said.token)),
                None => Err(RequestRefusal::not_found("node", &attempt.node.node)),
            }
        }
    }
}

/// Stores the log of an attempt whose outcome is recorded. Losing it is only worth a warning.
pub(super) async fn keep_logs(
    deps: &GraphDeps,
    graph: &ExecutionKey,
    node: &NodeId,
    attempt: u32,
    text: String,
) {
    if text.is_empty() {
        return;
    }
    let log = ExecutorLogText { execution: graph.clone(), node: node.clone(), attempt, text };
    if let Err(error) = deps.stores.graphs.append_logs(&[log], deps.clock.now()).await {
        tracing::warn!(%error, graph = %graph, node = %node, "storing an executor's log failed");
    }
}
