//! Results of ended nodes that edits reference for the first time: the decision reads nothing from the
//! store, so the event carries them.

use std::sync::Arc;

use millstream_model::id::ExecutionKey;
use millstream_model::raw::RawJson;
use millstream_store::graph_store::NodeFilter;
use millstream_workflow::graph::limits::MAX_KEPT_BYTES;
use millstream_workflow::graph::{self, Graph, GraphChange, GraphPatch, NodeId};

use super::GraphDeps;
use crate::refusal::RequestRefusal;

/// Rows with their results in memory at once.
const AT_ONCE: usize = 50;

/// Nodes whose results the graph needs after the patch and does not hold.
pub(super) fn missing_results(current: &Arc<Graph>, patch: GraphPatch) -> Vec<NodeId> {
    let mut patched = Some(current.clone());
    graph::fold_change(&mut patched, &GraphChange { patch: Some(patch), ..GraphChange::default() });
    let nodes = patched.iter().flat_map(|graph| graph.nodes.values());
    let missing = nodes.filter(|node| node.mentioned > 0 && node.kept.is_none() && node.status.is_ended());
    missing.map(|node| node.spec.id.clone()).collect()
}

pub(super) async fn load_known_results(
    deps: &GraphDeps,
    key: &ExecutionKey,
    missing: &[NodeId],
) -> Result<Vec<(NodeId, RawJson)>, RequestRefusal> {
    let mut known = Vec::new();
    for ids in missing.chunks(AT_ONCE) {
        let filter = NodeFilter { ids: ids.to_vec(), statuses: Vec::new() };
        let rows = deps.stores.graph_views.list_nodes(key, &filter, None, ids.len()).await?;
        let results = rows.into_iter().filter_map(|row| Some((row.node, row.result?)));
        // The graph would not keep a longer result.
        known.extend(results.filter(|(_, result)| result.len() <= MAX_KEPT_BYTES));
    }
    Ok(known)
}
