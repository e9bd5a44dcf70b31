//! The end of a graph: by itself when no node is open, or by request or timeout with nodes still open.

use millstream_model::context::ExecutionContext;
use millstream_model::id::Name;
use millstream_model::raw::RawJson;
use millstream_model::status::ExecutionPhase;

use super::propagate::GraphPropagation;
use crate::graph::{Graph, Node, NodeChange, NodeId, NodeStatus, why};
use crate::log::ExecutionState;

/// How a graph ends.
pub(super) struct GraphEnding {
    pub(super) phase: ExecutionPhase,
    pub(super) reason: Option<String>,
}

/// The result of a graph after the pending transition; `None` while a node is open.
pub(super) fn ending_of(graph: &Graph, ripple: &GraphPropagation<'_>) -> Option<GraphEnding> {
    if is_open(graph, ripple) {
        return None;
    }
    let has_final = graph.nodes.values().any(|node| node.spec.is_final);
    let decides = |node: &Node| {
        if has_final { node.spec.is_final } else { node.of.is_none() && node.children.is_empty() }
    };
    let deciding = graph.nodes.iter().filter(|(_, node)| decides(node));
    let (mut failed, mut passed) = (Vec::new(), false);
    for (id, _) in deciding {
        let status = ripple.status_after(graph, id);
        passed |= status == NodeStatus::Pass;
        if status != NodeStatus::Pass && status != NodeStatus::Filtered {
            failed.push(id);
        }
    }
    if failed.is_empty() && passed {
        return Some(GraphEnding { phase: ExecutionPhase::Completed, reason: None });
    }
    Some(GraphEnding { phase: ExecutionPhase::Failed, reason: Some(failure_reason(graph, ripple, &failed)) })
}

/// Names the nodes that failed themselves; a deciding node that was skipped is only a consequence.
fn failure_reason(graph: &Graph, ripple: &GraphPropagation<'_>, deciding: &[&NodeId]) -> String {
    let broken = graph.nodes.keys().filter(|id| ripple.status_after(graph, id).is_failure());
    match why::list_nodes(broken) {
        (_, 0) if deciding.is_empty() => "no deciding node passed: all are FILTERED".to_owned(),
        (_, 0) => {
            let (names, _) = why::list_nodes(deciding.iter().copied());
            format!("not passed: {names}")
        }
        (names, 1) => format!("node {names} failed"),
        (names, _) => format!("nodes {names} failed"),
    }
}

fn is_open(graph: &Graph, ripple: &GraphPropagation<'_>) -> bool {
    let closed = ripple.changes.iter().filter(|change| {
        let before = graph.nodes.get(&change.id).is_some_and(|node| !node.status.is_ended());
        before && change.status.is_ended()
    });
    let open = usize::try_from(graph.tally.open_count()).unwrap_or(usize::MAX);
    open > closed.count() || !ripple.fresh.is_empty()
}

/// Skips every open node; their attempts are not waited for.
pub(super) fn skip_open_nodes(graph: &Graph, why: &str) -> Vec<NodeChange> {
    let open = graph.nodes.iter().filter(|(_, node)| !node.status.is_ended());
    open.map(|(id, node)| NodeChange {
        id: id.clone(),
        status: NodeStatus::Skipped,
        attempt: node.attempt,
        why: Some(why.to_owned()),
        kept: None,
        avoid: Vec::new(),
    })
    .collect()
}

impl GraphEnding {
    /// The name of the final state.
    pub(super) fn final_state_name(&self) -> Name {
        Name::reserved_name(match self.phase {
            ExecutionPhase::Completed => "passed",
            ExecutionPhase::Failed => "failed",
            ExecutionPhase::Cancelled => "cancelled",
            ExecutionPhase::Active => "running",
        })
    }

    /// The final state; its context is the summary for the parent.
    pub(super) fn final_state(
        &self,
        state: &ExecutionState,
        graph: &Graph,
        changes: &[NodeChange],
    ) -> ExecutionState {
        let mut tally = graph.tally.clone();
        for change in changes {
            if let Some(node) = graph.nodes.get(&change.id) {
                tally.remove_status(node.status);
                tally.add(change.status);
            }
        }
        let context = ExecutionContext::from([
            ("status".to_owned(), RawJson::from_value(&self.final_state_name())),
            ("nodes".to_owned(), RawJson::from_value(&tally.0)),
        ]);
        ExecutionState {
            phase: self.phase,
            state: self.final_state_name(),
            reason: self.reason.clone(),
            context,
            ..state.clone()
        }
    }
}

/// Whether child executions may have to be closed at the end.
pub(super) fn may_have_children(graph: &Graph) -> bool {
    graph.nodes.values().any(|node| node.spec.graph.is_some() || node.spec.execution.is_some())
}
