//! Shapes and sizes of the measured graphs, and their encoding.

use std::fmt;

use serde::Serialize;

use crate::error::{BenchError, BenchResult};

/// What `millstream bench graph` measures.
#[derive(Debug, Clone)]
pub struct GraphBench {
    pub shapes: Vec<GraphShape>,
    /// Sizes, each a number of nodes.
    pub nodes: Vec<usize>,
    /// Capacity that the executor announces.
    pub capacity: u32,
    /// Nodes of a graph before the measured ones.
    pub warmup: usize,
}

/// Structure of a graph. Every node is a no-op.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GraphShape {
    /// Nodes without parents, and one after all of them.
    Flat,
    /// One node, branches after it, leaves after each branch, and one node after all leaves.
    Levels,
}

/// Minimum size: smaller graphs have no shape.
const FEWEST: usize = 10;
/// Maximum size that the engine accepts.
const MOST: usize = 20_000;

/// A node before encoding.
#[derive(Debug, PartialEq, Eq)]
struct ShapedNode {
    id: String,
    parents: Vec<String>,
}

impl GraphBench {
    /// A comma-separated list of sizes, each once, in the order given.
    pub fn parse_sizes(text: &str) -> BenchResult<Vec<usize>> {
        let mut sizes = Vec::new();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let size = word.parse().ok().filter(|size| (FEWEST..=MOST).contains(size));
            let size = size.ok_or_else(|| wrong_size(word))?;
            if !sizes.contains(&size) {
                sizes.push(size);
            }
        }
        if sizes.is_empty() { Err(wrong_size(text)) } else { Ok(sizes) }
    }

    /// Number of graphs of a size measured one after the other. All sizes add up to about as many nodes, so
    /// that the CPU clocks (100 ticks per second) are equally precise for each.
    pub(crate) fn in_one_run(&self, nodes: usize) -> usize {
        let most = self.nodes.iter().copied().max().unwrap_or(nodes);
        (most / nodes.max(1)).max(1)
    }

    pub(crate) fn validate_plan(&self) -> BenchResult<()> {
        let usage = |text: &str| Err(BenchError::Usage(text.to_owned()));
        if !(1..=100_000).contains(&self.capacity) {
            return usage("--capacity: between 1 and 100,000");
        }
        if self.warmup != 0 && !(FEWEST..=MOST).contains(&self.warmup) {
            return usage("--warmup: 0, or between 10 and 20,000 nodes");
        }
        Ok(())
    }
}

impl GraphShape {
    pub const ALL: [Self; 2] = [Self::Flat, Self::Levels];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Flat => "flat",
            Self::Levels => "levels",
        }
    }

    /// A comma-separated list, or `all`. Each shape once, in the order given.
    pub fn parse_list(text: &str) -> BenchResult<Vec<Self>> {
        let mut found = Vec::new();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let meant: &[Self] = if word == "all" { &Self::ALL } else { &[Self::parse_name(word)?] };
            for shape in meant {
                if !found.contains(shape) {
                    found.push(*shape);
                }
            }
        }
        if found.is_empty() { Err(unknown_shape(text)) } else { Ok(found) }
    }

    fn parse_name(word: &str) -> BenchResult<Self> {
        Self::ALL.into_iter().find(|shape| shape.name() == word).ok_or_else(|| unknown_shape(word))
    }

    /// The request that creates such a graph; `label` is required of the executor of its nodes.
    pub(crate) fn create_request(self, graph: &str, nodes: usize, label: &str) -> String {
        let written = self.shaped_nodes(nodes).into_iter().map(|node| {
            let parents: Vec<String> = node.parents.iter().map(|parent| format!("\"{parent}\"")).collect();
            let parents = match parents.is_empty() {
                true => String::new(),
                false => format!(",\"parents\":[{}]", parents.join(",")),
            };
            format!("{{\"id\":\"{}\",\"agent\":{{\"labels\":[\"{label}\"]}}{parents}}}", node.id)
        });
        let written: Vec<String> = written.collect();
        format!("{{\"graph_id\":\"{graph}\",\"name\":\"bench_{self}\",\"nodes\":[{}]}}", written.join(","))
    }

    /// The ids of all nodes.
    pub(crate) fn node_ids(self, nodes: usize) -> impl Iterator<Item = String> {
        self.shaped_nodes(nodes).into_iter().map(|node| node.id)
    }

    pub(crate) fn edge_count(self, nodes: usize) -> usize {
        self.shaped_nodes(nodes).iter().map(|node| node.parents.len()).sum()
    }

    /// Exactly `count` nodes, parents before children.
    fn shaped_nodes(self, count: usize) -> Vec<ShapedNode> {
        match self {
            Self::Flat => flat_nodes(count),
            Self::Levels => level_nodes(count),
        }
    }
}

fn flat_nodes(count: usize) -> Vec<ShapedNode> {
    let mut nodes: Vec<ShapedNode> =
        (1..count).map(|number| shaped_node(format!("n{number}"), &[])).collect();
    let all: Vec<String> = nodes.iter().map(|node| node.id.clone()).collect();
    nodes.push(ShapedNode { id: "join".to_owned(), parents: all });
    nodes
}

/// As many branches as leaves per branch, or one more.
fn level_nodes(count: usize) -> Vec<ShapedNode> {
    let branches = count.isqrt();
    let leaves = count.saturating_sub(branches + 2);
    let mut nodes = vec![shaped_node("top".to_owned(), &[])];
    nodes.extend((0..branches).map(|branch| shaped_node(format!("b{branch}"), &["top"])));
    let leaves: Vec<ShapedNode> = (0..leaves)
        .map(|leaf| shaped_node(format!("l{leaf}"), &[&format!("b{}", leaf % branches.max(1))]))
        .collect();
    let join =
        ShapedNode { id: "join".to_owned(), parents: leaves.iter().map(|leaf| leaf.id.clone()).collect() };
    nodes.extend(leaves);
    nodes.push(join);
    nodes
}

fn shaped_node(id: String, parents: &[&str]) -> ShapedNode {
    ShapedNode { id, parents: parents.iter().map(|parent| (*parent).to_owned()).collect() }
}

impl fmt::Display for GraphShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fn unknown_shape(word: &str) -> BenchError {
    let names: Vec<&str> = GraphShape::ALL.iter().map(|shape| shape.name()).collect();
    BenchError::Usage(format!("--shape: there is no shape {word:?}; there are {} and all", names.join(", ")))
}

fn wrong_size(word: &str) -> BenchError {
    BenchError::Usage(format!(
        "--nodes: {word:?} is not a number of nodes between {FEWEST} and {MOST}; several are separated by commas"
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn graph_shape_has_exact_size_and_order() {
        for shape in GraphShape::ALL {
            for count in [FEWEST, 11, 30, 90, 1_000, 10_000, MOST] {
                let (nodes, mut seen) = (shape.shaped_nodes(count), BTreeSet::new());
                assert_eq!(nodes.len(), count, "{shape}");
                for node in &nodes {
                    assert!(node.parents.iter().all(|parent| seen.contains(parent)), "{shape}: {node:?}");
                    assert!(seen.insert(node.id.clone()), "{shape}: {node:?} twice");
                }
                assert!(shape.edge_count(count) <= 200_000, "more than a graph may have");
            }
        }
    }

    #[test]
    fn level_graph_branches_match_leaves() {
        let nodes = level_nodes(1_000);
        let after = |parent: &str| nodes.iter().filter(|node| node.parents == [parent]).count();
        assert_eq!((after("top"), after("b0"), after("b30")), (31, 32, 31));
        assert_eq!(nodes.last().map(|join| join.parents.len()), Some(1_000 - 31 - 2));
    }

    #[test]
    fn graph_request_is_json() {
        let text = GraphShape::Flat.create_request("g-1", 10, "bench");
        let graph: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&graph["graph_id"], &graph["name"]), (&"g-1".into(), &"bench_flat".into()));
        let nodes = graph["nodes"].as_array().unwrap();
        assert_eq!(nodes[0], serde_json::json!({ "id": "n1", "agent": { "labels": ["bench"] } }));
        assert_eq!(nodes[9]["parents"].as_array().unwrap().len(), 9);
    }

    #[test]
    fn graph_lists_keep_order() {
        assert_eq!(
            GraphShape::parse_list("levels, flat,all").unwrap(),
            [GraphShape::Levels, GraphShape::Flat]
        );
        assert_eq!(GraphBench::parse_sizes("1000, 10,1000").unwrap(), [1000, 10]);
        for text in ["", ",", "round", "flat,x"] {
            assert!(
                GraphShape::parse_list(text).unwrap_err().to_string().contains("flat, levels and all"),
                "{text}"
            );
        }
        for text in ["", "9", "20001", "-5", "many", "100,x"] {
            assert!(
                GraphBench::parse_sizes(text).unwrap_err().to_string().contains("between 10 and 20000"),
                "{text}"
            );
        }
    }

    #[test]
    fn graph_runs_have_similar_node_totals() {
        let graphs =
            GraphBench { shapes: Vec::new(), nodes: vec![1_000, 10_000, 3_000], capacity: 1, warmup: 0 };
        assert_eq!([1_000, 10_000, 3_000].map(|nodes| graphs.in_one_run(nodes)), [10, 1, 3]);
    }
}
