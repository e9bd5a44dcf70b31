//! Detects dependency cycles between nodes.

use std::collections::BTreeMap;

use super::spec::{NodeId, NodeSpec};

/// Number of nodes of a cycle that are named.
const SHOWN: usize = 20;

/// A description of one cycle, if there is any. Parents that are not among the nodes are ignored.
pub(super) fn find_cycle<'a>(nodes: impl Iterator<Item = &'a NodeSpec>) -> Option<String> {
    let nodes: Vec<&NodeSpec> = nodes.collect();
    let places: BTreeMap<&NodeId, usize> =
        nodes.iter().enumerate().map(|(at, node)| (&node.id, at)).collect();
    let parents: Vec<Vec<usize>> = nodes
        .iter()
        .map(|node| node.parents.iter().filter_map(|edge| places.get(&edge.from).copied()).collect())
        .collect();
    let waiting = unresolved_parents(&parents);
    let start = waiting.iter().position(|count| *count > 0)?;
    // Every remaining node has a remaining parent, so following parents must return to a visited node.
    let mut seen: BTreeMap<usize, usize> = BTreeMap::new();
    let (mut trail, mut at) = (Vec::new(), start);
    while !seen.contains_key(&at) {
        seen.insert(at, trail.len());
        trail.push(at);
        at = parents.get(at)?.iter().copied().find(|parent| waiting.get(*parent).is_some_and(|n| *n > 0))?;
    }
    let mut round: Vec<&NodeId> = trail
        .get(*seen.get(&at)?..)?
        .iter()
        .rev()
        .filter_map(|at| nodes.get(*at))
        .map(|node| &node.id)
        .collect();
    let first = round.iter().enumerate().min_by_key(|(_, id)| **id).map_or(0, |(at, _)| at);
    round.rotate_left(first);
    Some(describe_cycle(&round))
}

/// For each node, the number of unresolved parents after topological sorting.
fn unresolved_parents(parents: &[Vec<usize>]) -> Vec<usize> {
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); parents.len()];
    for (node, parents) in parents.iter().enumerate() {
        for parent in parents {
            if let Some(children) = children.get_mut(*parent) {
                children.push(node);
            }
        }
    }
    let mut waiting: Vec<usize> = parents.iter().map(Vec::len).collect();
    let free = waiting.iter().enumerate().filter(|(_, count)| **count == 0).map(|(node, _)| node);
    let mut free: Vec<usize> = free.collect();
    while let Some(node) = free.pop() {
        for child in children.get(node).into_iter().flatten() {
            if let Some(count) = waiting.get_mut(*child) {
                *count -= 1;
                if *count == 0 {
                    free.push(*child);
                }
            }
        }
    }
    waiting
}

fn describe_cycle(round: &[&NodeId]) -> String {
    let mut text: Vec<&str> = round.iter().take(SHOWN).map(|id| id.as_str()).collect();
    let more = format!("({} more)", round.len().saturating_sub(SHOWN));
    if round.len() > SHOWN {
        text.push(&more);
    }
    text.extend(round.first().map(|id| id.as_str()));
    format!("these nodes wait for each other: {}", text.join(" -> "))
}
