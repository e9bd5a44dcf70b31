//! Estimates the cost of validation beforehand: it decides on which thread the validation runs.

use super::check_node::node_text_bytes;
use super::spec::{GraphSpec, NodeEdit, NodeSpec};

/// Cost of compiling a pattern, in bytes of input that take equally long.
const PATTERN_BYTES: usize = 16 * 1024;
/// Cost of a node without texts.
const NODE_BYTES: usize = 64;

/// Estimated cost of validating a graph, in bytes.
pub fn graph_check_bytes(graph: &GraphSpec) -> usize {
    graph.nodes.iter().map(node_bytes).sum()
}

/// Estimated cost of validating edits, without the graph they apply to.
pub fn edit_check_bytes(edits: &[NodeEdit]) -> usize {
    let bytes = edits.iter().map(|edit| match edit {
        NodeEdit::Insert(spec) | NodeEdit::Update(spec) => node_bytes(spec),
        NodeEdit::Delete(_) => NODE_BYTES,
    });
    bytes.sum()
}

fn node_bytes(node: &NodeSpec) -> usize {
    let conditions = node.parents.iter().filter_map(|edge| edge.condition.as_deref());
    let expressions = conditions.chain(node.fan_out.as_ref().map(|fan_out| fan_out.over.as_str()));
    let patterns: usize = expressions.map(|source| source.matches("matches").count()).sum();
    let within = node.graph.as_deref().map_or(0, graph_check_bytes);
    NODE_BYTES + node_text_bytes(node) + NODE_BYTES * node.parents.len() + PATTERN_BYTES * patterns + within
}

#[cfg(test)]
mod tests {
    use millstream_model::document::SourceFormat;

    use super::*;
    use crate::graph::read_graph;

    fn bytes(node: &str) -> usize {
        let source = format!("{{name: g, nodes: [{{id: a}}, {node}]}}");
        graph_check_bytes(
            &read_graph(&source, SourceFormat::Yaml).unwrap_or_else(|problems| panic!("{problems}")),
        )
    }

    #[test]
    fn pattern_costs_more_than_its_bytes() {
        let with =
            |condition: &str| bytes(&format!("{{id: b, parents: [{{node: a, if: \"{condition}\"}}]}}"));
        let plain = with("results['a'] == 'xxxxxxxxxx'");
        assert!(with("results['a'].matches('x')") > plain + 10_000);
        assert!(bytes(&format!("{{id: b, task: {{goal: {}}}}}", "x".repeat(50_000))) > plain + 40_000);
    }
}
