//! The end of a graph: by itself when no node is open, or by request or timeout with nodes still open.

use super::change::NodeChange;
use super::ripple::Ripple;
use super::spec::NodeId;
use super::state::{Graph, Node};
use super::status::NodeStatus;
use super::why;
use crate::id::Name;
use crate::log::{Context, State};
use crate::raw::RawJson;
use crate::status::Phase;

/// How a graph ends.
pub(super) struct Ending {
    pub(super) phase: Phase,
    pub(super) reason: Option<String>,
}

/// The result of a graph after the pending transition; `None` while a node is open.
pub(super) fn ending(graph: &Graph, ripple: &Ripple<'_>) -> Option<Ending> {
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
        let status = ripple.status(graph, id);
        passed |= status == NodeStatus::Pass;
        if status != NodeStatus::Pass && status != NodeStatus::Filtered {
            failed.push(id);
        }
    }
    if failed.is_empty() && passed {
        return Some(Ending { phase: Phase::Completed, reason: None });
    }
    Some(Ending { phase: Phase::Failed, reason: Some(reason(graph, ripple, &failed)) })
}

/// Names the nodes that failed themselves; a deciding node that was skipped is only a consequence.
fn reason(graph: &Graph, ripple: &Ripple<'_>, deciding: &[&NodeId]) -> String {
    let broken = graph.nodes.keys().filter(|id| ripple.status(graph, id).is_failure());
    match why::listed(broken) {
        (_, 0) if deciding.is_empty() => "no deciding node passed: all are FILTERED".to_owned(),
        (_, 0) => {
            let (names, _) = why::listed(deciding.iter().copied());
            format!("not passed: {names}")
        }
        (names, 1) => format!("node {names} failed"),
        (names, _) => format!("nodes {names} failed"),
    }
}

fn is_open(graph: &Graph, ripple: &Ripple<'_>) -> bool {
    let closed = ripple.changes.iter().filter(|change| {
        let before = graph.nodes.get(&change.id).is_some_and(|node| !node.status.is_ended());
        before && change.status.is_ended()
    });
    let open = usize::try_from(graph.tally.open()).unwrap_or(usize::MAX);
    open > closed.count() || !ripple.fresh.is_empty()
}

/// Skips every open node; their attempts are not waited for.
pub(super) fn cut(graph: &Graph, why: &str) -> Vec<NodeChange> {
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

impl Ending {
    /// The name of the final state.
    pub(super) fn state(&self) -> Name {
        Name::reserved(match self.phase {
            Phase::Completed => "passed",
            Phase::Failed => "failed",
            Phase::Cancelled => "cancelled",
            Phase::Active => "running",
        })
    }

    /// The final state; its context is the summary for the parent.
    pub(super) fn told(&self, state: &State, graph: &Graph, changes: &[NodeChange]) -> State {
        let mut tally = graph.tally.clone();
        for change in changes {
            if let Some(node) = graph.nodes.get(&change.id) {
                tally.take(node.status);
                tally.add(change.status);
            }
        }
        let context = Context::from([
            ("status".to_owned(), RawJson::of(&self.state())),
            ("nodes".to_owned(), RawJson::of(&tally.0)),
        ]);
        State {
            phase: self.phase,
            state: self.state(),
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
