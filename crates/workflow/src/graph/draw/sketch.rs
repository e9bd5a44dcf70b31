//! The part of a node that a drawing needs.

use std::collections::BTreeMap;

use crate::graph::{Graph, NodeStatus};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSketch {
    pub id: String,
    /// Unknown parents are not drawn. For an instance, the fan-out is its parent here.
    pub parents: Vec<String>,
    pub status: NodeStatus,
    /// The text beside the id: a goal, an executor, a reason.
    pub label: String,
}

/// Sketches of a whole graph, labelled with the reason of each node's status, or with its goal.
pub fn sketch_nodes(graph: &Graph) -> Vec<NodeSketch> {
    let sketch = |(id, node): (&crate::graph::NodeId, &crate::graph::Node)| {
        let parents = node.spec.parents.iter().map(|edge| &edge.from);
        let fan_out = node.of.iter().map(|(fan_out, _)| fan_out);
        NodeSketch {
            id: id.to_string(),
            parents: parents.chain(fan_out).map(ToString::to_string).collect(),
            status: node.status,
            label: node.why.clone().unwrap_or_else(|| node.spec.task.goal.clone()),
        }
    };
    graph.nodes.iter().map(sketch).collect()
}

/// `990 PASS, 10 RUNNING`.
pub(super) fn count_statuses<'a>(nodes: impl Iterator<Item = &'a NodeSketch>) -> String {
    let mut counts: BTreeMap<NodeStatus, usize> = BTreeMap::new();
    for node in nodes {
        *counts.entry(node.status).or_default() += 1;
    }
    let counts: Vec<String> = counts.iter().map(|(status, count)| format!("{count} {status}")).collect();
    counts.join(", ")
}

/// The first characters of a text, without line breaks and control characters.
pub(super) fn truncate_text(text: &str, chars: usize) -> String {
    let mut plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let start: String = plain.by_ref().take(chars).collect();
    if plain.next().is_some() { format!("{}…", start.trim_end()) } else { start }
}
