//! Progress of an attempt, as its executor reports it. It renews the lease, which keeps the attempt alive.

use millstream_core::graph::NodeId;
use millstream_core::id::ExecutionKey;
use millstream_core::raw::RawJson;
use millstream_store::action_store::{Beat, Lease, Pulse, Wanted};
use millstream_store::graph_store::NodeView;

use super::attempt::{Attempt, Said, held, lost, meant};
use super::result::keep_logs;
use crate::door::Door;
use crate::http::problem::Problem;

/// A progress report of an executor.
#[derive(Debug)]
pub(crate) struct Progress {
    /// New progress; `None` keeps the last one.
    pub(crate) progress: Option<RawJson>,
    pub(crate) logs: String,
}

/// The node, and whether its result is still wanted.
pub(crate) async fn report(
    door: &Door,
    graph: &ExecutionKey,
    node: &NodeId,
    said: &Said,
    told: Progress,
) -> Result<(NodeView, Wanted), Problem> {
    let attempt = meant(door, graph, node, said).await?;
    held(&attempt, said.token)?;
    let wanted = beat(door, &attempt, said, told.progress).await?;
    keep_logs(door, graph, node, attempt.input.attempt, told.logs).await;
    Ok((attempt.node, wanted))
}

async fn beat(
    door: &Door,
    attempt: &Attempt,
    said: &Said,
    progress: Option<RawJson>,
) -> Result<Wanted, Problem> {
    let lease = Lease { key: attempt.action.key.clone(), epoch: said.token.epoch() };
    match door.reports.beat(Beat { lease, progress }).await? {
        Pulse::Held { until: _, wanted } => Ok(wanted),
        Pulse::Lost => Err(lost(attempt, said.token)),
    }
}
