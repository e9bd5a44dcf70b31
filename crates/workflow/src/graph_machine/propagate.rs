//! Propagation of a node's end: skips, filters, fan-outs and ready nodes, all in one transition.
//!
//! The graph itself is neither modified nor copied. Changes are collected beside it, so the cost is that of
//! the affected nodes; folding the change applies it to the graph.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use millstream_expr::ExprBudget;
use millstream_model::raw::RawJson;

use super::condition::NodeScope;
use crate::graph::limits::{MAX_EXPANDED_BYTES, MAX_NODES};
use crate::graph::{
    FanOut, FanOutExpansion, FanOutInstances, Graph, NodeChange, NodeId, NodeOnFailure, NodeSpec, NodeStatus,
    fan_out_result, instance_id, node_text_bytes, why,
};
use crate::log::PlannedAction;

/// The pending changes of a transition.
#[derive(Debug)]
pub(super) struct GraphPropagation<'b> {
    /// The budget that pays for the expressions of this transition.
    budget: &'b ExprBudget<'b>,
    pub(super) changes: Vec<NodeChange>,
    /// Index of each node in `changes`.
    places: BTreeMap<NodeId, usize>,
    pub(super) expanded: Vec<FanOutExpansion>,
    /// Instances created by this transition, with their fan-outs.
    pub(super) fresh: BTreeMap<NodeId, NodeId>,
    /// For waiting nodes: the number of parents that ended in this transition.
    arrived: BTreeMap<NodeId, u32>,
    instances: BTreeMap<NodeId, FanOutInstances>,
    /// Nodes that became ready in this transition.
    pub(super) ready: BTreeSet<NodeId>,
    /// Ended nodes whose end has not been propagated to their children.
    ended: VecDeque<NodeId>,
    /// Attempts that ended in this transition: capacity that was freed.
    pub(super) freed: u32,
    pub(super) actions: Vec<PlannedAction>,
}

/// The fate of a node whose parents have all ended.
enum NodeFate {
    Runs,
    FansOut(Vec<RawJson>),
    Ends(NodeStatus, String),
}

impl<'b> GraphPropagation<'b> {
    pub(super) fn new(budget: &'b ExprBudget<'b>) -> Self {
        Self {
            budget,
            changes: Vec::new(),
            places: BTreeMap::new(),
            expanded: Vec::new(),
            fresh: BTreeMap::new(),
            arrived: BTreeMap::new(),
            instances: BTreeMap::new(),
            ready: BTreeSet::new(),
            ended: VecDeque::new(),
            freed: 0,
            actions: Vec::new(),
        }
    }

    /// Records the end of a node that ran.
    pub(super) fn record_outcome(&mut self, change: NodeChange) {
        self.freed += 1;
        self.end_node(change);
    }

    /// Evaluates nodes without open parents, which no propagation reaches.
    pub(super) fn evaluate_ready<'a>(&mut self, graph: &Graph, ids: impl Iterator<Item = &'a NodeId>) {
        for id in ids.filter(|id| graph.ready.contains(*id)) {
            self.decide_node(graph, id);
        }
    }

    /// Propagates all ends to the waiting nodes, until nothing more follows.
    pub(super) fn propagate_ends(&mut self, graph: &Graph) {
        while let Some(id) = self.ended.pop_front() {
            let Some(node) = graph.nodes.get(&id) else { continue };
            for child in &node.children {
                let waits_for = graph.nodes.get(child).map_or(0, |child| child.waits_for);
                let arrived = self.arrived.get(child).copied().unwrap_or(0) + 1;
                if arrived >= waits_for {
                    self.decide_node(graph, child);
                } else {
                    self.arrived.insert(child.clone(), arrived);
                }
            }
            if let Some((fan_out, _)) = &node.of {
                self.end_instance(graph, fan_out, self.status_after(graph, &id));
            }
        }
    }

    /// The status after this transition.
    pub(super) fn status_after(&self, graph: &Graph, id: &NodeId) -> NodeStatus {
        self.pending_change(id.as_str())
            .map(|change| change.status)
            .unwrap_or_else(|| graph.nodes.get(id).map_or(NodeStatus::Pending, |node| node.status))
    }

    /// Whether a node that the graph lists as ready is still ready after this transition.
    pub(super) fn is_still_ready(&self, id: &NodeId) -> bool {
        !self.places.contains_key(id)
    }

    pub(super) fn record(&mut self, change: NodeChange) {
        self.places.insert(change.id.clone(), self.changes.len());
        self.changes.push(change);
    }

    fn pending_change(&self, id: &str) -> Option<&NodeChange> {
        self.places.get(id).and_then(|place| self.changes.get(*place))
    }

    fn end_node(&mut self, change: NodeChange) {
        self.ended.push_back(change.id.clone());
        self.record(change);
    }

    fn decide_node(&mut self, graph: &Graph, id: &NodeId) {
        let Some(node) = graph.nodes.get(id) else { return };
        match self.fate_of(graph, &node.spec) {
            NodeFate::Runs => {
                self.ready.insert(id.clone());
            }
            NodeFate::FansOut(items) => self.expand_fan_out(graph, &node.spec, items),
            NodeFate::Ends(status, why) => self.end_node(NodeChange {
                id: id.clone(),
                status,
                attempt: node.attempt,
                why: Some(why::shorten_text(&why)),
                kept: None,
                avoid: Vec::new(),
            }),
        }
    }

    fn fate_of(&self, graph: &Graph, node: &NodeSpec) -> NodeFate {
        let parents: Vec<_> =
            node.parents.iter().map(|edge| (edge, self.status_after(graph, &edge.from))).collect();
        let has_failed = |status: NodeStatus| status.is_failure() || status == NodeStatus::Skipped;
        match node.on_failure {
            NodeOnFailure::Continue => {}
            NodeOnFailure::Skip => {
                let failed = parents.iter().filter(|(_, status)| has_failed(*status));
                let failed: Vec<_> = failed.map(|(edge, status)| (&edge.from, *status)).collect();
                if !failed.is_empty() {
                    return NodeFate::Ends(NodeStatus::Skipped, why::explain_skip(&failed));
                }
            }
        }
        let sight = NodeScope::of_node(node, &graph.input, self.budget, |parent| {
            let stands = graph.nodes.get(parent)?;
            let (status, kept) = match self.pending_change(parent) {
                Some(change) => (change.status, change.kept.as_ref()),
                None => (stands.status, stands.kept.as_ref()),
            };
            Some((status, kept.cloned()))
        });
        let (mut open, mut closed) = (node.parents.is_empty(), None);
        for (edge, status) in &parents {
            let is_open = match (&edge.condition, status) {
                (Some(condition), NodeStatus::Pass) => match sight.is_true(condition) {
                    Ok(true) => true,
                    Ok(false) => {
                        closed.get_or_insert((&edge.from, condition));
                        false
                    }
                    Err(error) => {
                        let why = format!("cannot evaluate the condition on {}: {error}", edge.from);
                        return NodeFate::Ends(NodeStatus::TaskError, why);
                    }
                },
                (None, NodeStatus::Pass) => true,
                (Some(_) | None, status) => has_failed(*status),
            };
            open |= is_open;
        }
        if !open {
            let why = match closed {
                Some((parent, condition)) => format!("condition on {parent} is false: {condition}"),
                None => "all parents are FILTERED".to_owned(),
            };
            return NodeFate::Ends(NodeStatus::Filtered, why);
        }
        let Some(FanOut { over }) = &node.fan_out else { return NodeFate::Runs };
        match sight.evaluate_value(over).and_then(|list| FanOut::read_items(&list, self.budget)) {
            Ok(items) => self.check_fan_out_size(graph, node, items),
            Err(error) => NodeFate::Ends(NodeStatus::TaskError, format!("cannot evaluate `over`: {error}")),
        }
    }

    /// A fan-out that exceeds the limits fails alone, not with the graph.
    fn check_fan_out_size(&self, graph: &Graph, node: &NodeSpec, items: Vec<RawJson>) -> NodeFate {
        let nodes = graph.nodes.len() + self.fresh.len() + items.len();
        if nodes > MAX_NODES {
            let why = format!("{} items make it {nodes} nodes, at most {MAX_NODES} are allowed", items.len());
            return NodeFate::Ends(NodeStatus::TaskError, why);
        }
        if node_text_bytes(node).saturating_mul(items.len()) > MAX_EXPANDED_BYTES {
            let limit = MAX_EXPANDED_BYTES / 1024 / 1024;
            let why = format!("{} items make it more than {limit} MiB of goals and texts", items.len());
            return NodeFate::Ends(NodeStatus::TaskError, why);
        }
        NodeFate::FansOut(items)
    }

    fn expand_fan_out(&mut self, graph: &Graph, node: &NodeSpec, items: Vec<RawJson>) {
        let all = u32::try_from(items.len()).unwrap_or(u32::MAX);
        let instances = FanOutInstances { all, open: all, failed: 0 };
        for id in (0..items.len()).filter_map(|index| instance_id(&node.id, index)) {
            self.ready.insert(id.clone());
            self.fresh.insert(id, node.id.clone());
        }
        let revision = self.expanded.last().map_or(graph.revision, |last| last.revision) + 1;
        self.expanded.push(FanOutExpansion { id: node.id.clone(), items, revision });
        if all == 0 {
            return self.end_fan_out(graph, &node.id, instances);
        }
        self.record(NodeChange {
            id: node.id.clone(),
            status: NodeStatus::Running,
            attempt: 0,
            why: Some(format!("{all} items")),
            kept: None,
            avoid: Vec::new(),
        });
    }

    fn end_instance(&mut self, graph: &Graph, fan_out: &NodeId, status: NodeStatus) {
        let before = graph.nodes.get(fan_out).and_then(|node| node.instances);
        let Some(mut instances) = self.instances.get(fan_out).copied().or(before) else { return };
        instances.open = instances.open.saturating_sub(1);
        instances.failed += u32::from(status != NodeStatus::Pass);
        self.instances.insert(fan_out.clone(), instances);
        if instances.open == 0 {
            self.end_fan_out(graph, fan_out, instances);
        }
    }

    fn end_fan_out(&mut self, graph: &Graph, id: &NodeId, instances: FanOutInstances) {
        let Some(node) = graph.nodes.get(id) else { return };
        let FanOutInstances { all, open: _, failed } = instances;
        let (status, why) = match (failed, node.spec.on_failure) {
            (0, NodeOnFailure::Skip | NodeOnFailure::Continue) => {
                (NodeStatus::Pass, format!("all {all} items passed"))
            }
            (_, NodeOnFailure::Skip) => (NodeStatus::Fail, format!("{failed} of {all} items did not pass")),
            (_, NodeOnFailure::Continue) => {
                (NodeStatus::Pass, format!("continues although {failed} of {all} items did not pass"))
            }
        };
        let kept = node.kept_result(Some(&fan_out_result(instances)));
        self.end_node(NodeChange {
            id: id.clone(),
            status,
            attempt: 0,
            why: Some(why),
            kept,
            avoid: Vec::new(),
        });
    }
}
