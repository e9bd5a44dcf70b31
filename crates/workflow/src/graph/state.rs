//! The state of a graph: the fold of all its changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use millstream_model::raw::RawJson;

use super::spec::{GraphOptions, NodeId, NodeSpec};
use super::status::NodeStatus;

/// Everything the next step needs. It holds only those results that expressions mention.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    pub name: String,
    pub description: String,
    pub creator: Option<String>,
    pub input: RawJson,
    pub options: GraphOptions,
    /// Revision of its shape: 1 at creation, incremented by every patch and every fan-out.
    pub revision: u32,
    pub nodes: BTreeMap<NodeId, Node>,
    /// Derived: `PENDING` nodes without open parents. Before `millstream.begin` they are the roots, later the
    /// nodes that wait for free parallelism.
    pub ready: BTreeSet<NodeId>,
    /// Derived.
    pub tally: NodeTally,
    /// Derived: fan-outs that are `RUNNING`. Only their instances count towards the parallelism limit.
    pub running_fan_outs: u32,
}

/// The state of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub spec: Arc<NodeSpec>,
    pub status: NodeStatus,
    /// The current or last attempt; 0 before the first.
    pub attempt: u32,
    pub why: Option<String>,
    pub kept: Option<RawJson>,
    pub avoid: Vec<String>,
    /// For an instance of a fan-out: the fan-out and its item.
    pub of: Option<(NodeId, RawJson)>,
    /// For a fan-out whose list was evaluated: counts over its instances.
    pub instances: Option<FanOutInstances>,
    /// Derived from `parents`: the nodes that wait for this one.
    pub children: BTreeSet<NodeId>,
    /// Derived: number of parents that have not ended.
    pub waits_for: u32,
    /// Derived: number of mentions of its result in expressions of its children. A mentioned result is kept.
    pub mentioned: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FanOutInstances {
    pub all: u32,
    /// Instances that have not ended.
    pub open: u32,
    /// Instances that ended and did not pass.
    pub failed: u32,
}

/// Number of nodes by status.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeTally(pub BTreeMap<NodeStatus, u32>);

impl NodeTally {
    pub fn count_of(&self, status: NodeStatus) -> u32 {
        self.0.get(&status).copied().unwrap_or(0)
    }

    /// Number of nodes that have not ended.
    pub fn open_count(&self) -> u32 {
        self.count_of(NodeStatus::Pending) + self.count_of(NodeStatus::Running)
    }

    pub(crate) fn add(&mut self, status: NodeStatus) {
        *self.0.entry(status).or_default() += 1;
    }

    /// Removes a status with a count of zero, so that equal graphs have equal tallies.
    pub(crate) fn remove_status(&mut self, status: NodeStatus) {
        if let Some(count) = self.0.get_mut(&status) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.0.remove(&status);
            }
        }
    }
}
