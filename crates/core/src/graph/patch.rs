//! Edits are validated together: applied as a whole, or not at all.
//!
//! History is immutable: only `PENDING` nodes can be changed or deleted. New nodes may follow any node,
//! including ended ones.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use super::change::{Patch, Updated};
use super::check::{check_references, check_size, is_own_parent};
use super::check_node::check_node;
use super::cycle::cycle;
use super::fan_out::looks_like_instance_of;
use super::found::{Found, Invalid};
use super::limits::{MAX_EDITS, MAX_KEPT_BYTES};
use super::spec::{NodeEdit, NodeId, NodeSpec};
use super::state::Graph;
use super::status::NodeStatus;
use crate::expr::Budget;
use crate::problem::Problems;
use crate::raw::RawJson;

/// The patch that results from the edits, or every problem. Their expressions are charged to the step's
/// budget.
pub fn patch(graph: &Graph, edits: &[NodeEdit], budget: &Budget<'_>) -> Result<Patch, Problems> {
    let mut found = Found::default();
    if edits.is_empty() {
        found.add("edits", "there is nothing to change");
    }
    if edits.len() > MAX_EDITS {
        found.too_large("edits", format!("there are {} edits, at most {MAX_EDITS} are allowed", edits.len()));
        return found.into_result().map_err(Invalid::into_problems).map(|()| Patch::default());
    }
    let mut patch = Patch { revision: graph.revision + 1, ..Patch::default() };
    let mut seen = BTreeSet::new();
    for (at, edit) in edits.iter().enumerate() {
        let path = format!("edits[{at}].{}", edit.word());
        if !seen.insert(edit.id()) {
            found.add(path, format!("{:?} is edited twice", edit.id().as_str()));
            continue;
        }
        take(graph, edit, &path, &mut patch, &mut found, budget);
    }
    check_whole(graph, edits, &patch, &mut found);
    found.into_result().map_err(Invalid::into_problems).map(|()| patch)
}

/// Adds the known results that the patch mentions, and applies it.
pub(super) fn known(graph: &Graph, mut patch: Patch, results: &[(NodeId, RawJson)]) -> (Patch, Graph) {
    let mut patched = graph.clone();
    patched.patched(&patch);
    let news = results.iter().filter(|(id, result)| {
        patched.nodes.get(id).is_some_and(|node| {
            node.mentioned > 0
                && node.kept.is_none()
                && node.status.is_ended()
                && result.len() <= MAX_KEPT_BYTES
        })
    });
    patch.known = news.cloned().collect();
    for (id, result) in &patch.known {
        if let Some(node) = patched.nodes.get_mut(id) {
            node.kept = Some(result.clone());
        }
    }
    (patch, patched)
}

impl NodeEdit {
    fn id(&self) -> &NodeId {
        match self {
            Self::Insert(spec) | Self::Update(spec) => &spec.id,
            Self::Delete(id) => id,
        }
    }

    const fn word(&self) -> &'static str {
        match self {
            Self::Insert(_) => "insert",
            Self::Update(_) => "update",
            Self::Delete(_) => "delete",
        }
    }
}

/// Validates and records one edit.
fn take(
    graph: &Graph,
    edit: &NodeEdit,
    path: &str,
    patch: &mut Patch,
    found: &mut Found,
    budget: &Budget<'_>,
) {
    match edit {
        NodeEdit::Insert(spec) => {
            if graph.nodes.contains_key(&spec.id) {
                found.add(format!("{path}.id"), format!("{:?} already exists", spec.id.as_str()));
            }
            check_node(spec, path, 0, found, budget);
            patch.inserted.push(Arc::clone(spec));
        }
        NodeEdit::Update(spec) => {
            check_node(spec, path, 0, found, budget);
            if let Some(was) = pending(graph, &spec.id, &format!("{path}.id"), found) {
                patch.updated.push(Updated { was, is: Arc::clone(spec) });
            }
        }
        NodeEdit::Delete(id) => patch.deleted.extend(pending(graph, id, path, found)),
    }
}

/// Looks up a node that may be edited.
fn pending(graph: &Graph, id: &NodeId, path: &str, found: &mut Found) -> Option<Arc<NodeSpec>> {
    let word = id.as_str();
    let Some(node) = graph.nodes.get(id) else {
        found.add(path, format!("there is no {word:?}"));
        return None;
    };
    if let Some((fan_out, _)) = &node.of {
        found.add(path, format!("{word:?} is an instance of the fan-out {:?}", fan_out.as_str()));
        return None;
    }
    if node.status != NodeStatus::Pending {
        found.add(path, format!("{word:?} is {}: only PENDING nodes may be edited", node.status));
        return None;
    }
    Some(Arc::clone(&node.spec))
}

/// Validates the graph as it would be after the patch.
fn check_whole(graph: &Graph, edits: &[NodeEdit], patch: &Patch, found: &mut Found) {
    let mut after: BTreeMap<&str, &NodeSpec> =
        graph.nodes.iter().map(|(id, node)| (id.as_str(), node.spec.as_ref())).collect();
    for spec in &patch.deleted {
        after.remove(spec.id.as_str());
    }
    for spec in patch.inserted.iter().chain(patch.updated.iter().map(|updated| &updated.is)) {
        after.insert(spec.id.as_str(), spec);
    }
    check_size(after.len(), after.values().copied(), "edits", found);
    for (at, edit) in edits.iter().enumerate() {
        let path = format!("edits[{at}].{}", edit.word());
        match edit {
            NodeEdit::Insert(spec) | NodeEdit::Update(spec) => {
                check_references(spec, &path, &after, found);
                check_no_instances(graph, spec, &path, found);
            }
            // A missing id has already been reported.
            NodeEdit::Delete(id) if after.contains_key(id.as_str()) => {}
            NodeEdit::Delete(id) => {
                let children = graph.nodes.get(id).map(|node| &node.children).into_iter().flatten();
                let orphan = children.into_iter().find(|child| {
                    let child = after.get(child.as_str());
                    child.is_some_and(|child| child.parents.iter().any(|edge| edge.from == *id))
                });
                if let Some(orphan) = orphan {
                    let message = format!("{:?} is a parent of {:?}", id.as_str(), orphan.as_str());
                    found.add(path, message);
                }
            }
        }
    }
    check_new_fan_outs(patch, &after, found);
    if let Some(told) = cycle(after.values().copied().filter(|node| !is_own_parent(node))) {
        found.add("edits", told);
    }
    check_final(graph, &after, found);
}

/// Instances end with their fan-out: dependents must name the fan-out itself.
fn check_no_instances(graph: &Graph, spec: &NodeSpec, path: &str, found: &mut Found) {
    for (at, edge) in spec.parents.iter().enumerate() {
        let of = graph.nodes.get(&edge.from).and_then(|parent| parent.of.as_ref());
        if let Some((fan_out, _)) = of {
            let message = format!("is an instance: name the fan-out {:?} itself", fan_out.as_str());
            found.add(format!("{path}.parents[{at}]"), message);
        }
    }
}

/// Checks that the instances of a new fan-out collide with no node.
fn check_new_fan_outs(patch: &Patch, after: &BTreeMap<&str, &NodeSpec>, found: &mut Found) {
    let updated = patch.updated.iter().map(|updated| &updated.is);
    for spec in patch.inserted.iter().chain(updated).filter(|spec| spec.fan_out.is_some()) {
        let prefix = format!("{}.", spec.id);
        let taken = after
            .range::<str, _>((Bound::Included(prefix.as_str()), Bound::Unbounded))
            .take_while(|(id, _)| id.starts_with(&prefix))
            .find(|(id, _)| looks_like_instance_of(id) == Some(spec.id.as_str()));
        if let Some((id, _)) = taken {
            let message = format!("{:?} cannot be a fan-out: there is {id:?}", spec.id.as_str());
            found.add("edits", message);
        }
    }
}

/// If nodes have `is_final`, at least one of them must still be able to pass.
fn check_final(graph: &Graph, after: &BTreeMap<&str, &NodeSpec>, found: &mut Found) {
    if !graph.nodes.values().any(|node| node.spec.is_final) {
        return;
    }
    let can_pass = |id: &str| {
        let status = graph.nodes.get(id).map_or(NodeStatus::Pending, |node| node.status);
        matches!(status, NodeStatus::Pending | NodeStatus::Running | NodeStatus::Pass)
    };
    if !after.iter().any(|(id, spec)| spec.is_final && can_pass(id)) {
        found.add("edits", "no node with is_final would be left that can still pass");
    }
}
