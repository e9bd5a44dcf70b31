//! `millstream.decide_edit`: applies edits to a graph, with optimistic concurrency by revision.

use millstream_expr::ExprBudget;
use millstream_model::raw::RawJson;

use super::outcome::NodeOutcomeEffect;
use super::propagate::GraphPropagation;
use crate::graph::{Graph, GraphEdit, GraphPatch, NodeId, apply_with_known, build_patch};

const CONFLICT: &str = "revision conflict: ";

/// Whether an edit was rejected because of a revision conflict: the caller must re-read the graph and retry.
pub fn is_revision_conflict(reason: &str) -> bool {
    reason.starts_with(CONFLICT)
}

/// Decides an edit; `Err` is the reason of the rejection. It is applied as a whole or not at all.
pub(super) fn decide_edit<'b>(
    graph: &Graph,
    payload: &RawJson,
    budget: &'b ExprBudget<'b>,
) -> Result<NodeOutcomeEffect<'b>, String> {
    let edit: GraphEdit = payload.decode().map_err(|error| format!("the edit cannot be read: {error}"))?;
    if edit.expected_revision != graph.revision {
        let (expected, is) = (edit.expected_revision, graph.revision);
        return Err(format!("{CONFLICT}the graph is at revision {is}, not {expected}"));
    }
    let patch = build_patch(graph, &edit.edits, budget).map_err(|problems| problems.to_string())?;
    let (patch, patched) = apply_with_known(graph, patch, &edit.known);
    let mut ripple = GraphPropagation::new(budget);
    ripple.evaluate_ready(&patched, patch.affected_nodes());
    ripple.propagate_ends(&patched);
    ripple.dispatch_ready(&patched);
    Ok(NodeOutcomeEffect { patched: Some((patch, patched)), ripple })
}

impl GraphPatch {
    /// Nodes that the patch requires to be evaluated once more.
    pub(super) fn affected_nodes(&self) -> impl Iterator<Item = &NodeId> {
        self.inserted.iter().chain(self.updated.iter().map(|updated| &updated.is)).map(|spec| &spec.id)
    }
}
