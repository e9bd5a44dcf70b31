//! Layered layout: each node is one layer below its lowest parent, near its neighbours.

use std::collections::BTreeMap;

use super::sketch::NodeSketch;

/// Indices of nodes, layer by layer.
pub(super) struct GraphLayers {
    pub(super) layers: Vec<Vec<usize>>,
    /// For each node, its parents that are drawn.
    pub(super) parents: Vec<Vec<usize>>,
}

pub(super) fn assign_layers(nodes: &[NodeSketch]) -> GraphLayers {
    let places: BTreeMap<&str, usize> =
        nodes.iter().enumerate().map(|(place, node)| (node.id.as_str(), place)).collect();
    let known =
        |node: &NodeSketch| node.parents.iter().filter_map(|id| places.get(id.as_str()).copied()).collect();
    let parents: Vec<Vec<usize>> = nodes.iter().map(known).collect();
    let depths = node_depths(&parents);
    let mut layers: Vec<Vec<usize>> = Vec::new();
    for (node, depth) in depths.iter().enumerate() {
        while layers.len() <= *depth {
            layers.push(Vec::new());
        }
        if let Some(layer) = layers.get_mut(*depth) {
            layer.push(node);
        }
    }
    layers.retain(|layer| !layer.is_empty());
    arrange_layers(nodes, &parents, &mut layers);
    GraphLayers { layers, parents }
}

/// The longest path from a root. Nodes on a cycle, which validation excludes, stay at 0.
fn node_depths(parents: &[Vec<usize>]) -> Vec<usize> {
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); parents.len()];
    for (node, parents) in parents.iter().enumerate() {
        for parent in parents {
            if let Some(children) = children.get_mut(*parent) {
                children.push(node);
            }
        }
    }
    let mut waits: Vec<usize> = parents.iter().map(Vec::len).collect();
    let roots = waits.iter().enumerate().filter(|(_, count)| **count == 0).map(|(node, _)| node);
    let (mut free, mut depths): (Vec<usize>, Vec<usize>) = (roots.collect(), vec![0; parents.len()]);
    while let Some(node) = free.pop() {
        let below = depths.get(node).map_or(0, |depth| depth + 1);
        for child in children.get(node).into_iter().flatten() {
            if let (Some(depth), Some(count)) = (depths.get_mut(*child), waits.get_mut(*child)) {
                *depth = below.max(*depth);
                *count = count.saturating_sub(1);
                if *count == 0 {
                    free.push(*child);
                }
            }
        }
    }
    depths
}

/// Places children near their parents to reduce crossings; nodes without parents are sorted by name.
fn arrange_layers(nodes: &[NodeSketch], parents: &[Vec<usize>], layers: &mut [Vec<usize>]) {
    let mut rows: Vec<usize> = vec![0; nodes.len()];
    for layer in layers {
        let middle = |node: usize| {
            let parents = parents.get(node).map(Vec::as_slice).unwrap_or_default();
            let sum: usize = parents.iter().filter_map(|parent| rows.get(*parent)).sum();
            // In thousandths of a row: integers compare equally on every platform.
            sum * 1_000 / parents.len().max(1)
        };
        let mut placed: Vec<(usize, &str, usize)> = layer
            .iter()
            .map(|node| (middle(*node), nodes.get(*node).map_or("", |sketch| sketch.id.as_str()), *node))
            .collect();
        placed.sort_unstable();
        *layer = placed.into_iter().map(|(_, _, node)| node).collect();
        for (row, node) in layer.iter().enumerate() {
            if let Some(place) = rows.get_mut(*node) {
                *place = row;
            }
        }
    }
}
