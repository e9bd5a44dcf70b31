//! Log lines and metrics of graph nodes, written once, after the commit.

use millstream_model::status::ExecutionPhase;
use millstream_store::execution_store::ExecutionCommit;
use millstream_workflow::graph::{NodeChange, NodeStatus};

use super::ended_graphs::EndedGraphs;
use crate::metrics;

/// One line for each node that became ready, is retried or has ended, with the reason.
pub(crate) fn log_commit(ended: &EndedGraphs, commit: &ExecutionCommit) {
    for transition in &commit.transitions {
        let Some(change) = &transition.decision.graph else { continue };
        for node in &change.nodes {
            log_node(commit, node);
        }
        if let Some(patch) = &change.patch {
            tracing::info!(
                graph.id = %commit.execution, graph.revision = patch.revision, inserted = patch.inserted.len(),
                updated = patch.updated.len(), deleted = patch.deleted.len(), "graph edited"
            );
        }
    }
    let Some(last) = commit.transitions.last().filter(|last| last.decision.graph.is_some()) else { return };
    if last.decision.phase != ExecutionPhase::Active {
        let reason = last.decision.reason.as_deref().unwrap_or("all nodes passed");
        tracing::info!(graph.id = %commit.execution, status = %last.decision.phase, reason, "graph ended");
        ended.add_graph(commit.execution.clone(), last.decision.phase, last.at);
        ::metrics::counter!(metrics::GRAPHS_ENDED, "status" => last.decision.phase.as_str()).increment(1);
    }
}

fn log_node(commit: &ExecutionCommit, node: &NodeChange) {
    let why = node.why.as_deref().unwrap_or_default();
    if node.status == NodeStatus::Running {
        if node.attempt > 1 {
            ::metrics::counter!(metrics::NODES_RETRIED).increment(1);
        }
        tracing::debug!(
            graph.id = %commit.execution, node = %node.id, node.attempt = node.attempt, why, "node scheduled"
        );
    } else if node.status.is_ended() {
        tracing::debug!(
            graph.id = %commit.execution, node = %node.id, node.attempt = node.attempt, status = %node.status, why,
            "node ended"
        );
        ::metrics::counter!(metrics::NODES_ENDED, "status" => node.status.as_str()).increment(1);
    }
}
