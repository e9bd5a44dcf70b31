//! Progress of an attempt, as its executor reports it. It renews the lease, which keeps the attempt alive.

use millstream_model::id::ExecutionKey;
use millstream_model::raw::RawJson;
use millstream_store::action_store::{Lease, LeaseHeartbeat, LeasePulse, OutcomeDemand};
use millstream_store::graph_store::NodeView;
use millstream_workflow::graph::NodeId;

use super::GraphDeps;
use super::attempt::{AttemptReference, NodeAttempt, check_token, resolve_attempt, token_lost};
use super::result::keep_logs;
use crate::refusal::RequestRefusal;

/// A progress report of an executor.
#[derive(Debug)]
pub(crate) struct ProgressReport {
    /// New progress; `None` keeps the last one.
    pub(crate) progress: Option<RawJson>,
    pub(crate) logs: String,
}

/// The node, and whether its result is still wanted.
pub(crate) async fn report_progress(
    deps: &GraphDeps,
    graph: &ExecutionKey,
    node: &NodeId,
    said: &AttemptReference,
    told: ProgressReport,
) -> Result<(NodeView, OutcomeDemand), RequestRefusal> {
    let attempt = resolve_attempt(deps, graph, node, said).await?;
    check_token(&attempt, said.token)?;
    let wanted = renew_attempt(deps, &attempt, said, told.progress).await?;
    keep_logs(deps, graph, node, attempt.input.attempt, told.logs).await;
    Ok((attempt.node, wanted))
}

async fn renew_attempt(
    deps: &GraphDeps,
    attempt: &NodeAttempt,
    said: &AttemptReference,
    progress: Option<RawJson>,
) -> Result<OutcomeDemand, RequestRefusal> {
    let lease = Lease { key: attempt.action.key.clone(), epoch: said.token.epoch() };
    match deps.reports.beat_task(LeaseHeartbeat { lease, progress }).await? {
        LeasePulse::Held { until: _, wanted } => Ok(wanted),
        LeasePulse::Lost => Err(token_lost(attempt, said.token)),
    }
}
