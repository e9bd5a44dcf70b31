//! The outcome of an attempt, as its executor reports it: settled in the same way as by the worker.

use millstream_core::action::{self, Attempt as Performed};
use millstream_core::entropy;
use millstream_core::expr::Budget;
use millstream_core::graph::{self, Answer, NodeEdit, NodeId, NodeStatus};
use millstream_core::id::ExecutionKey;
use millstream_core::raw::RawJson;
use millstream_core::status::ActionStatus;
use millstream_store::action_store::{Lease, SettleVerdict, Settlement};
use millstream_store::graph_store::{NodeLog, NodeView};
use millstream_store::outcome::{self, Whose};

use super::attempt::{Attempt, Said, held, lost, meant};
use super::current::current;
use super::{heavy, known, nodes};
use crate::door::Door;
use crate::http::problem::Problem;
use crate::trace::Trace;

/// An outcome report of an executor.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) status: NodeStatus,
    pub(crate) result: Option<RawJson>,
    pub(crate) error: Option<String>,
    pub(crate) edits: Vec<NodeEdit>,
    pub(crate) logs: String,
}

/// Records the outcome; returns the node as the store knows it right after, possibly before the graph has
/// decided the outcome.
pub(crate) async fn report(
    door: &Door,
    trace: &Trace,
    graph: &ExecutionKey,
    node: &NodeId,
    said: &Said,
    report: Report,
) -> Result<NodeView, Problem> {
    let attempt = meant(door, graph, node, said).await?;
    let answer = Answer {
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
    held(&attempt, said.token)?;
    let known = known_to(door, graph, &answer).await?;
    let answer = Answer { known, ..answer };
    settle(door, trace, attempt, said, &answer).await?;
    keep_logs(door, graph, node, answer.attempt, report.logs).await;
    nodes::one(door, graph, node).await
}

/// Whether this very outcome is recorded already: the answer to the first report was lost.
fn is_repeat(attempt: &Attempt, said: &Said, answer: &Answer) -> bool {
    let action = &attempt.action;
    if action.status != ActionStatus::Succeeded || action.epoch != said.token.epoch() {
        return false;
    }
    let recorded = action.result.as_ref().and_then(|result| result.decode::<Answer>().ok());
    let told = |answer: Answer| Answer { known: Vec::new(), executor: None, ..answer };
    recorded.is_some_and(|recorded| told(recorded) == told(answer.clone()))
}

async fn known_to(
    door: &Door,
    key: &ExecutionKey,
    answer: &Answer,
) -> Result<Vec<(NodeId, RawJson)>, Problem> {
    if answer.edits.is_empty() || answer.status != NodeStatus::Pass {
        return Ok(Vec::new());
    }
    let graph = current(door, key).await?.graph;
    let edits = answer.edits.clone();
    // Edits that do not fit are refused by the decision, which then fails the node.
    let bytes = graph.nodes.len() * 256 + graph::edit_check_bytes(&edits);
    let missing = heavy(&door.machines.compilations, bytes, move || {
        let patch = graph::patch(&graph, &edits, &Budget::default());
        patch.map(|patch| known::missing(&graph, patch)).unwrap_or_default()
    });
    let missing = missing.await?;
    known::known(door, key, &missing).await
}

async fn settle(
    door: &Door,
    trace: &Trace,
    attempt: Attempt,
    said: &Said,
    answer: &Answer,
) -> Result<(), Problem> {
    let action = &attempt.action;
    let whose = Whose { key: &action.key, revision: action.revision, traceparent: Some(&trace.traceparent) };
    let attempts = u32::try_from(action.attempts).unwrap_or(1);
    let spec = graph::dispatch_spec(&attempt.node.node);
    let performed = Performed::Success { result: RawJson::of(answer) };
    let conclusion = action::conclude(&spec, &whose.shown(), attempts, performed, 0.0);
    let now = door.clock.now();
    let outcome = outcome::settling(whose, conclusion, now, &mut || entropy::event_id(now, &*door.entropy));
    let lease = Lease { key: action.key.clone(), epoch: said.token.epoch() };
    let settlement = Settlement { lease, event_id: action.event_id, outcome };
    match door.reports.settle(settlement).await? {
        SettleVerdict::Recorded { event: _ } => Ok(()),
        SettleVerdict::Stale => {
            let key = action.key.clone();
            match door.reports.find(key).await? {
                Some(action) => Err(lost(&Attempt { action, ..attempt }, said.token)),
                None => Err(Problem::not_found("node", &attempt.node.node)),
            }
        }
    }
}

/// Stores the log of an attempt whose outcome is recorded. Losing it is only worth a warning.
pub(super) async fn keep_logs(door: &Door, graph: &ExecutionKey, node: &NodeId, attempt: u32, text: String) {
    if text.is_empty() {
        return;
    }
    let log = NodeLog { execution: graph.clone(), node: node.clone(), attempt, text };
    if let Err(error) = door.stores.graphs.keep_logs(&[log], door.clock.now()).await {
        tracing::warn!(%error, graph = %graph, node = %node, "storing an executor's log failed");
    }
}
