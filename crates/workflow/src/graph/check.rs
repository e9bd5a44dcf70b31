//! Validation of a graph before it is created.

use std::collections::BTreeMap;

use millstream_expr::ExprBudget;
use millstream_model::suggest::did_you_mean;

use super::check_node::{check_length, check_name, check_node, check_options, is_object_or_null};
use super::cycle::find_cycle;
use super::fan_out::fan_out_of_instance;
use super::limits::{MAX_EDGES, MAX_INPUT_BYTES, MAX_NODE_BYTES, MAX_NODES};
use super::problems::{GraphProblems, InvalidGraph};
use super::spec::{GraphSpec, NodeSpec};

/// All problems of a graph, at most fifty.
pub fn validate_graph(graph: &GraphSpec) -> Result<(), InvalidGraph> {
    let mut found = GraphProblems::default();
    // Unlimited budget: the size limits of graphs and patterns bound the cost.
    check_graph(graph, "", 0, &mut found, &ExprBudget::unlimited());
    found.into_result()
}

/// `depth` is the number of enclosing graphs.
pub(super) fn check_graph(
    graph: &GraphSpec,
    path: &str,
    depth: usize,
    found: &mut GraphProblems,
    budget: &ExprBudget<'_>,
) {
    let at = |rest: &str| if path.is_empty() { rest.to_owned() } else { format!("{path}.{rest}") };
    check_size(graph.nodes.len(), graph.nodes.iter(), &at("nodes"), found);
    if found.is_too_large() {
        return;
    }
    check_name(&graph.name, &at("name"), found);
    if graph.description.len() > MAX_NODE_BYTES {
        found.add_problem(at("description"), format!("is longer than {} KiB", MAX_NODE_BYTES / 1024));
    }
    if !is_object_or_null(graph.input.as_str()) {
        found.add_problem(at("input"), "must be an object");
    }
    if graph.input.len() > MAX_INPUT_BYTES {
        found.add_too_large(at("input"), format!("is larger than {} KiB", MAX_INPUT_BYTES / 1024));
    }
    if let Some(timeout) = graph.options.timeout {
        check_length(timeout, &at("options.timeout"), found);
    }
    if graph.options.max_parallel == Some(0) {
        found.add_problem(at("options.max_parallel"), "must be at least 1");
    }
    check_options(&graph.options.node, &at("options.node"), found);
    if graph.nodes.is_empty() {
        found.add_problem(at("nodes"), "a graph has at least one node");
    }
    let mut known: BTreeMap<&str, &NodeSpec> = BTreeMap::new();
    for (place, node) in graph.nodes.iter().enumerate() {
        if known.insert(node.id.as_str(), node).is_some() {
            found.add_problem(
                at(&format!("nodes[{place}].id")),
                format!("{:?} is defined twice", node.id.as_str()),
            );
        }
    }
    for (place, node) in graph.nodes.iter().enumerate() {
        let path = at(&format!("nodes[{place}]"));
        check_node(node, &path, depth, found, budget);
        check_references(node, &path, &known, found);
    }
    if let Some(told) = find_cycle(graph.nodes.iter().filter(|node| !is_own_parent(node))) {
        found.add_problem(at("nodes"), told);
    }
}

/// Checks the number of nodes and edges.
pub(super) fn check_size<'a>(
    nodes: usize,
    specs: impl Iterator<Item = &'a NodeSpec>,
    path: &str,
    found: &mut GraphProblems,
) {
    if nodes > MAX_NODES {
        found.add_too_large(path, format!("there are {nodes} nodes, at most {MAX_NODES} are allowed"));
        return;
    }
    let edges: usize = specs.map(|node| node.parents.len()).sum();
    if edges > MAX_EDGES {
        found.add_too_large(path, format!("there are {edges} edges, at most {MAX_EDGES} are allowed"));
    }
}

/// Checks that parents exist and that the id does not collide with an instance of a fan-out.
pub(super) fn check_references(
    node: &NodeSpec,
    path: &str,
    known: &BTreeMap<&str, &NodeSpec>,
    found: &mut GraphProblems,
) {
    for (at, edge) in node.parents.iter().enumerate() {
        if !known.contains_key(edge.from.as_str()) {
            // The suggestion costs a comparison with each name, so it is limited to small graphs.
            let hint = match known.len() {
                0..=1_000 => did_you_mean(edge.from.as_str(), known.keys().copied()),
                _ => String::new(),
            };
            found.add_problem(
                format!("{path}.parents[{at}]"),
                format!("there is no {:?}{hint}", edge.from.as_str()),
            );
        }
    }
    if let Some(fan_out) = fan_out_of_instance(node.id.as_str())
        && known.get(fan_out).is_some_and(|node| node.fan_out.is_some())
    {
        found.add_problem(
            format!("{path}.id"),
            format!("is reserved for an instance of the fan-out {fan_out:?}"),
        );
    }
}

/// Reported with a clearer message than a cycle.
pub(super) fn is_own_parent(node: &NodeSpec) -> bool {
    node.parents.iter().any(|edge| edge.from == node.id)
}
