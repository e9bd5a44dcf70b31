//! The fold: applies a change to a graph.
//!
//! Total, without decisions, like [`evolve`](crate::machine::evolve). Derived fields (children, counts, ready
//! nodes) are maintained incrementally: the end of a node costs as much as it has children, independent of
//! the size of the graph. [`Graph::from_parts`](super::state::Graph) computes the same fields from scratch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use millstream_model::raw::RawJson;

use super::change::{CreatedGraph, FanOutExpansion, GraphChange, GraphPatch, NodeChange};
use super::fan_out::instance_spec;
use super::mention::mentioned_by_node;
use super::spec::{NodeId, NodeSpec};
use super::state::{FanOutInstances, Graph, Node, NodeTally};
use super::status::NodeStatus;

/// The graph after `change`; `None` before creation.
pub fn fold_change(graph: &mut Option<Arc<Graph>>, change: &GraphChange) {
    if let Some(created) = &change.created {
        *graph = Some(Arc::new(Graph::from_creation(created)));
    }
    let Some(graph) = graph else { return };
    if change.patch.is_none() && change.expanded.is_empty() && change.nodes.is_empty() {
        return;
    }
    let graph = Arc::make_mut(graph);
    if let Some(patch) = &change.patch {
        graph.apply_patch(patch);
    }
    for expansion in &change.expanded {
        graph.apply_expansion(expansion);
    }
    for node in &change.nodes {
        graph.apply_node_change(node);
    }
}

impl Graph {
    fn from_creation(created: &CreatedGraph) -> Self {
        let spec = &created.graph;
        let mut graph = Self {
            name: spec.name.clone(),
            description: spec.description.clone(),
            creator: created.creator.clone(),
            input: spec.input.clone(),
            options: spec.options.clone(),
            revision: 1,
            nodes: BTreeMap::new(),
            ready: BTreeSet::new(),
            tally: NodeTally::default(),
            running_fan_outs: 0,
        };
        for node in &spec.nodes {
            graph.insert(Node::new_pending(Arc::new(node.clone())));
        }
        for node in &spec.nodes {
            graph.link(&node.id);
        }
        graph
    }

    pub(super) fn apply_patch(&mut self, patch: &GraphPatch) {
        self.revision = patch.revision;
        for updated in &patch.updated {
            self.unlink(&updated.was);
        }
        for deleted in &patch.deleted {
            self.unlink(deleted);
        }
        for deleted in &patch.deleted {
            self.remove(&deleted.id);
        }
        for updated in &patch.updated {
            if let Some(node) = self.nodes.get_mut(&updated.is.id) {
                let children = std::mem::take(&mut node.children);
                let mentioned = node.mentioned;
                *node = Node { children, mentioned, ..Node::new_pending(Arc::clone(&updated.is)) };
            }
        }
        for inserted in &patch.inserted {
            self.insert(Node::new_pending(Arc::clone(inserted)));
        }
        let updated = patch.updated.iter().map(|updated| &updated.is);
        for spec in patch.inserted.iter().chain(updated) {
            self.link(&spec.id);
        }
        for (id, result) in &patch.known {
            if let Some(node) = self.nodes.get_mut(id) {
                node.kept = Some(result.clone());
            }
        }
    }

    pub(super) fn apply_expansion(&mut self, expansion: &FanOutExpansion) {
        self.revision = expansion.revision;
        let Some(node) = self.nodes.get_mut(&expansion.id) else { return };
        let template = Arc::clone(&node.spec);
        let all = u32::try_from(expansion.items.len()).unwrap_or(u32::MAX);
        node.instances = Some(FanOutInstances { all, open: all, failed: 0 });
        for (index, item) in expansion.items.iter().enumerate() {
            let Some(spec) = instance_spec(&template, index) else { continue };
            let of = Some((expansion.id.clone(), item.clone()));
            self.ready.insert(spec.id.clone());
            self.insert(Node { of, ..Node::new_pending(Arc::new(spec)) });
        }
    }

    pub(super) fn apply_node_change(&mut self, change: &NodeChange) {
        let Some(node) = self.nodes.get_mut(&change.id) else { return };
        let was = std::mem::replace(&mut node.status, change.status);
        node.attempt = change.attempt;
        node.why.clone_from(&change.why);
        node.avoid.clone_from(&change.avoid);
        if change.kept.is_some() {
            node.kept.clone_from(&change.kept);
        }
        let is_fan_out = node.spec.fan_out.is_some();
        if node.is_ready() {
            self.ready.insert(change.id.clone());
        } else {
            self.ready.remove(&change.id);
        }
        self.tally.remove_status(was);
        self.tally.add(change.status);
        if is_fan_out {
            let runs = |status| u32::from(status == NodeStatus::Running);
            self.running_fan_outs = (self.running_fan_outs + runs(change.status)).saturating_sub(runs(was));
        }
        if !was.is_ended() && change.status.is_ended() {
            self.propagate_end(&change.id);
        }
    }

    /// Propagates the end of a node to its children, and to the fan-out of an instance.
    fn propagate_end(&mut self, id: &NodeId) {
        let Some(node) = self.nodes.get_mut(id) else { return };
        let passed = node.status == NodeStatus::Pass;
        let of = node.of.as_ref().map(|(fan_out, _)| fan_out.clone());
        // Taken and put back: iterating is cheaper than cloning the set.
        let children = std::mem::take(&mut node.children);
        for child in &children {
            if let Some(child) = self.nodes.get_mut(child) {
                child.waits_for = child.waits_for.saturating_sub(1);
                if child.is_ready() {
                    self.ready.insert(child.spec.id.clone());
                }
            }
        }
        if let Some(node) = self.nodes.get_mut(id) {
            node.children = children;
        }
        if let Some(instances) =
            of.and_then(|fan_out| self.nodes.get_mut(&fan_out)).and_then(|node| node.instances.as_mut())
        {
            instances.open = instances.open.saturating_sub(1);
            instances.failed += u32::from(!passed);
        }
    }

    /// Inserts a node that no other node refers to yet.
    pub(super) fn insert(&mut self, node: Node) {
        self.tally.add(node.status);
        if node.status == NodeStatus::Running && node.spec.fan_out.is_some() {
            self.running_fan_outs += 1;
        }
        self.nodes.insert(node.spec.id.clone(), node);
    }

    fn remove(&mut self, id: &NodeId) {
        if let Some(node) = self.nodes.remove(id) {
            self.tally.remove_status(node.status);
        }
        self.ready.remove(id);
    }

    /// Registers a node with its parents and counts those it waits for.
    pub(super) fn link(&mut self, id: &NodeId) {
        let Some(spec) = self.nodes.get(id).map(|node| Arc::clone(&node.spec)) else { return };
        let mut waits_for = 0;
        for edge in &spec.parents {
            if let Some(parent) = self.nodes.get_mut(&edge.from) {
                parent.children.insert(id.clone());
                waits_for += u32::from(!parent.status.is_ended());
            }
        }
        for name in mentioned_by_node(&spec) {
            if let Some(parent) = self.nodes.get_mut(name) {
                parent.mentioned += 1;
            }
        }
        if let Some(node) = self.nodes.get_mut(id) {
            node.waits_for = waits_for;
            if node.is_ready() {
                self.ready.insert(id.clone());
            } else {
                self.ready.remove(id);
            }
        }
    }

    fn unlink(&mut self, spec: &NodeSpec) {
        for edge in &spec.parents {
            if let Some(parent) = self.nodes.get_mut(&edge.from) {
                parent.children.remove(&spec.id);
            }
        }
        for name in mentioned_by_node(spec) {
            if let Some(parent) = self.nodes.get_mut(name) {
                parent.mentioned = parent.mentioned.saturating_sub(1);
            }
        }
    }
}

impl Node {
    pub(super) fn new_pending(spec: Arc<NodeSpec>) -> Self {
        Self {
            spec,
            status: NodeStatus::Pending,
            attempt: 0,
            why: None,
            kept: None,
            avoid: Vec::new(),
            of: None,
            instances: None,
            children: BTreeSet::new(),
            waits_for: 0,
            mentioned: 0,
        }
    }

    fn is_ready(&self) -> bool {
        self.status == NodeStatus::Pending && self.waits_for == 0
    }

    /// The part of a result that is kept: all of it if an expression mentions it and it is within the limit.
    pub(crate) fn kept_result(&self, result: Option<&RawJson>) -> Option<RawJson> {
        let result = result.filter(|result| result.len() <= super::limits::MAX_KEPT_BYTES);
        result.filter(|_| self.mentioned > 0).cloned()
    }
}
