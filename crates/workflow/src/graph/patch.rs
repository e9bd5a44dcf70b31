//! Edits are validated together: applied as a whole, or not at all.
//!
//! History is immutable: only `PENDING` nodes can be changed or deleted. New nodes may follow any node,
//! including ended ones.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use millstream_expr::ExprBudget;
use millstream_model::problem::ValidationProblems;
use millstream_model::raw::RawJson;

use super::change::{GraphPatch, NodeSpecUpdate};
use super::check::{check_references, check_size, is_own_parent};
use super::check_node::check_node;
use super::cycle::find_cycle;
use super::fan_out::fan_out_of_instance;
use super::limits::{MAX_EDITS, MAX_KEPT_BYTES};
use super::problems::{GraphProblems, InvalidGraph};
use super::spec::{NodeEdit, NodeId, NodeSpec};
use super::state::Graph;
use super::status::NodeStatus;

/// The patch that results from the edits, or every problem. Their expressions are charged to the step's
/// budget.
pub fn build_patch(
    graph: &Graph,
    edits: &[NodeEdit],
    budget: &ExprBudget<'_>,
) -> Result<GraphPatch, ValidationProblems> {
    let mut found = GraphProblems::default();
    if edits.is_empty() {
        found.add_problem("edits", "there is nothing to change");
    }
    if edits.len() > MAX_EDITS {
        found.add_too_large(
            "edits",
            format!("there are {} edits, at most {MAX_EDITS} are allowed", edits.len()),
        );
        return found.into_result().map_err(InvalidGraph::into_problems).map(|()| GraphPatch::default());
    }
    let mut patch = GraphPatch { revision: graph.revision + 1, ..GraphPatch::default() };
    let mut seen = BTreeSet::new();
    for (at, edit) in edits.iter().enumerate() {
        let path = format!("edits[{at}].{}", edit.edit_kind());
        if !seen.insert(edit.node_id()) {
            found.add_problem(path, format!("{:?} is edited twice", edit.node_id().as_str()));
            continue;
        }
        take_edit(graph, edit, &path, &mut patch, &mut found, budget);
    }
    check_whole(graph, edits, &patch, &mut found);
    found.into_result().map_err(InvalidGraph::into_problems).map(|()| patch)
}

/// Adds the known results that the patch mentions, and applies it.
pub(crate) fn apply_with_known(
    graph: &Graph,
    mut patch: GraphPatch,
    results: &[(NodeId, RawJson)],
) -> (GraphPatch, Graph) {
    let mut patched = graph.clone();
    patched.apply_patch(&patch);
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
    fn node_id(&self) -> &NodeId {
        match self {
            Self::Insert(spec) | Self::Update(spec) => &spec.id,
            Self::Delete(id) => id,
        }
    }

    const fn edit_kind(&self) -> &'static str {
        match self {
            Self::Insert(_) => "insert",
            Self::Update(_) => "update",
            Self::Delete(_) => "delete",
        }
    }
}

/// Validates and records one edit.
fn take_edit(
    graph: &Graph,
    edit: &NodeEdit,
    path: &str,
    patch: &mut GraphPatch,
    found: &mut GraphProblems,
    budget: &ExprBudget<'_>,
) {
    match edit {
        NodeEdit::Insert(spec) => {
            if graph.nodes.contains_key(&spec.id) {
                found.add_problem(format!("{path}.id"), format!("{:?} already exists", spec.id.as_str()));
            }
            check_node(spec, path, 0, found, budget);
            patch.inserted.push(Arc::clone(spec));
        }
        NodeEdit::Update(spec) => {
            check_node(spec, path, 0, found, budget);
            if let Some(was) = find_pending(graph, &spec.id, &format!("{path}.id"), found) {
                patch.updated.push(NodeSpecUpdate { was, is: Arc::clone(spec) });
            }
        }
        NodeEdit::Delete(id) => patch.deleted.extend(find_pending(graph, id, path, found)),
    }
}

/// Looks up a node that may be edited.
fn find_pending(graph: &Graph, id: &NodeId, path: &str, found: &mut GraphProblems) -> Option<Arc<NodeSpec>> {
    let word = id.as_str();
    let Some(node) = graph.nodes.get(id) else {
        found.add_problem(path, format!("there is no {word:?}"));
        return None;
    };
    if let Some((fan_out, _)) = &node.of {
        found.add_problem(path, format!("{word:?} is an instance of the fan-out {:?}", fan_out.as_str()));
        return None;
    }
    if node.status != NodeStatus::Pending {
        found.add_problem(path, format!("{word:?} is {}: only PENDING nodes may be edited", node.status));
        return None;
    }
    Some(Arc::clone(&node.spec))
}

/// Validates the graph as it would be after the patch.
fn check_whole(graph: &Graph, edits: &[NodeEdit], patch: &GraphPatch, found: &mut GraphProblems) {
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
        let path = format!("edits[{at}].{}", edit.edit_kind());
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
                    found.add_problem(path, message);
                }
            }
        }
    }
    check_new_fan_outs(patch, &after, found);
    if let Some(told) = find_cycle(after.values().copied().filter(|node| !is_own_parent(node))) {
        found.add_problem("edits", told);
    }
    check_final(graph, &after, found);
}

/// Instances end with their fan-out: dependents must name the fan-out itself.
fn check_no_instances(graph: &Graph, spec: &NodeSpec, path: &str, found: &mut GraphProblems) {
    for (at, edge) in spec.parents.iter().enumerate() {
        let of = graph.nodes.get(&edge.from).and_then(|parent| parent.of.as_ref());
        if let Some((fan_out, _)) = of {
            let message = format!("is an instance: name the fan-out {:?} itself", fan_out.as_str());
            found.add_problem(format!("{path}.parents[{at}]"), message);
        }
    }
}

/// Checks that the instances of a new fan-out collide with no node.
fn check_new_fan_outs(patch: &GraphPatch, after: &BTreeMap<&str, &NodeSpec>, found: &mut GraphProblems) {
    let updated = patch.updated.iter().map(|updated| &updated.is);
    for spec in patch.inserted.iter().chain(updated).filter(|spec| spec.fan_out.is_some()) {
        let prefix = format!("{}.", spec.id);
        let taken = after
            .range::<str, _>((Bound::Included(prefix.as_str()), Bound::Unbounded))
            .take_while(|(id, _)| id.starts_with(&prefix))
            .find(|(id, _)| fan_out_of_instance(id) == Some(spec.id.as_str()));
        if let Some((id, _)) = taken {
            let message = format!("{:?} cannot be a fan-out: there is {id:?}", spec.id.as_str());
            found.add_problem("edits", message);
        }
    }
}

/// If nodes have `is_final`, at least one of them must still be able to pass.
fn check_final(graph: &Graph, after: &BTreeMap<&str, &NodeSpec>, found: &mut GraphProblems) {
    if !graph.nodes.values().any(|node| node.spec.is_final) {
        return;
    }
    let can_pass = |id: &str| {
        let status = graph.nodes.get(id).map_or(NodeStatus::Pending, |node| node.status);
        matches!(status, NodeStatus::Pending | NodeStatus::Running | NodeStatus::Pass)
    };
    if !after.iter().any(|(id, spec)| spec.is_final && can_pass(id)) {
        found.add_problem("edits", "no node with is_final would be left that can still pass");
    }
}
