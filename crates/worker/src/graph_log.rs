//! What happened to the nodes of a graph, for those who read logs and metrics: after the commit, once.

use millstream_core::graph::{NodeChange, NodeStatus};
use millstream_core::status::Phase;
use millstream_store::execution_store::Commit;

use crate::metrics;
use crate::worker::Worker;

/// One line for each node that became ready, was tried again or ended, with the reason.
pub(crate) fn told(worker: &Worker, commit: &Commit) {
    for transition in &commit.transitions {
        let Some(change) = &transition.decision.graph else { continue };
        for node in &change.nodes {
            line(commit, node);
        }
        if let Some(patch) = &change.patch {
            tracing::info!(
                graph.id = %commit.execution, graph.revision = patch.revision, inserted = patch.inserted.len(),
                updated = patch.updated.len(), deleted = patch.deleted.len(), "a graph was edited"
            );
        }
    }
    let Some(last) = commit.transitions.last().filter(|last| last.decision.graph.is_some()) else { return };
    if last.decision.phase != Phase::Active {
        let reason = last.decision.reason.as_deref().unwrap_or("all of it passed");
        tracing::info!(graph.id = %commit.execution, status = %last.decision.phase, reason, "a graph has ended");
        worker.ended_graphs.add(commit.execution.clone(), last.decision.phase, last.at);
        ::metrics::counter!(metrics::GRAPHS_ENDED, "status" => last.decision.phase.as_str()).increment(1);
    }
}

fn line(commit: &Commit, node: &NodeChange) {
    let why = node.why.as_deref().unwrap_or_default();
    if node.status == NodeStatus::Running {
        if node.attempt > 1 {
            ::metrics::counter!(metrics::NODES_RETRIED).increment(1);
        }
        tracing::debug!(
            graph.id = %commit.execution, node = %node.id, node.attempt = node.attempt, why, "a node is scheduled"
        );
    } else if node.status.is_ended() {
        tracing::debug!(
            graph.id = %commit.execution, node = %node.id, node.attempt = node.attempt, status = %node.status, why,
            "a node has ended"
        );
        ::metrics::counter!(metrics::NODES_ENDED, "status" => node.status.as_str()).increment(1);
    }
}
