//! Results of ended nodes that edits reference for the first time: the decision reads nothing from the
//! store, so the event carries them.

use std::sync::Arc;

use millstream_core::graph::limits::MAX_KEPT_BYTES;
use millstream_core::graph::{self, Change, Graph, NodeId, Patch};
use millstream_core::id::ExecutionKey;
use millstream_core::raw::RawJson;
use millstream_store::graph_store::NodeFilter;

use crate::door::Door;
use crate::http::problem::Problem;

/// Rows with their results in memory at once.
const AT_ONCE: usize = 50;

/// Nodes whose results the graph needs after the patch and does not hold.
pub(super) fn missing(current: &Arc<Graph>, patch: Patch) -> Vec<NodeId> {
    let mut patched = Some(current.clone());
    graph::fold(&mut patched, &Change { patch: Some(patch), ..Change::default() });
    let nodes = patched.iter().flat_map(|graph| graph.nodes.values());
    let missing = nodes.filter(|node| node.mentioned > 0 && node.kept.is_none() && node.status.is_ended());
    missing.map(|node| node.spec.id.clone()).collect()
}

pub(super) async fn known(
    door: &Door,
    key: &ExecutionKey,
    missing: &[NodeId],
) -> Result<Vec<(NodeId, RawJson)>, Problem> {
    let mut known = Vec::new();
    for ids in missing.chunks(AT_ONCE) {
        let filter = NodeFilter { ids: ids.to_vec(), statuses: Vec::new() };
        let rows = door.stores.graph_views.nodes(key, &filter, None, ids.len()).await?;
        let results = rows.into_iter().filter_map(|row| Some((row.node, row.result?)));
        // The graph would not keep a longer result.
        known.extend(results.filter(|(_, result)| result.len() <= MAX_KEPT_BYTES));
    }
    Ok(known)
}
