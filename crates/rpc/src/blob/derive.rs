//! What follows from the nodes of a graph.

use std::collections::{BTreeMap, BTreeSet};

use millstream_core::graph::{Graph, NodeId, Tally};

/// Fills in children, how many parents each node waits for, and the tally. Whatever was there is replaced.
pub(super) fn derive(graph: &mut Graph) {
    let mut tally = BTreeMap::new();
    let mut children: BTreeMap<NodeId, BTreeSet<NodeId>> = BTreeMap::new();
    let mut waits_for = Vec::with_capacity(graph.nodes.len());
    for (id, node) in &graph.nodes {
        *tally.entry(node.status).or_default() += 1;
        let mut open = 0;
        for edge in &node.spec.parents {
            if children.entry(edge.from.clone()).or_default().insert(id.clone())
                && graph.nodes.get(&edge.from).is_some_and(|parent| !parent.status.is_ended())
            {
                open += 1;
            }
        }
        waits_for.push(open);
    }
    for ((id, node), open) in graph.nodes.iter_mut().zip(waits_for) {
        node.children = children.remove(id).unwrap_or_default();
        node.waits_for = open;
    }
    graph.tally = Tally(tally);
}
