//! A graph as it stands: the fold of all changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::spec::{GraphOptions, NodeId, NodeSpec};
use super::status::NodeStatus;
use crate::raw::RawJson;

/// Everything the next step needs to know. Results are not in here, but for those that expressions mention.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    pub name: String,
    pub description: String,
    pub creator: Option<String>,
    pub input: RawJson,
    pub options: GraphOptions,
    /// Of its shape: 1 at creation, one more for every patch and for every fan-out.
    pub revision: u32,
    pub nodes: BTreeMap<NodeId, Node>,
    /// Derived: those that are `PENDING` and wait for no parent. Before `millstream.begin` they are the roots,
    /// later those that were let run when there was no room.
    pub ready: BTreeSet<NodeId>,
    /// Derived.
    pub tally: Tally,
    /// Derived: fan-outs that are `RUNNING`. Only their instances take room.
    pub running_fan_outs: u32,
}

/// One node as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub spec: Arc<NodeSpec>,
    pub status: NodeStatus,
    /// The attempt that runs or ran last; 0 before the first.
    pub attempt: u32,
    pub why: Option<String>,
    pub kept: Option<RawJson>,
    pub avoid: Vec<String>,
    /// An instance of a fan-out: of which, and its item.
    pub of: Option<(NodeId, RawJson)>,
    /// Of a fan-out whose list is known: what its instances have come to.
    pub instances: Option<Instances>,
    /// Derived from `parents`: the nodes that wait for this one.
    pub children: BTreeSet<NodeId>,
    /// Derived: how many of its parents have not ended.
    pub waits_for: u32,
    /// Derived: how often expressions of its children mention its result. Where they do it is kept.
    pub mentioned: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instances {
    pub all: u32,
    /// Have not ended.
    pub open: u32,
    /// Have ended and did not pass.
    pub failed: u32,
}

/// How many nodes are in which status.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally(pub BTreeMap<NodeStatus, u32>);

impl Tally {
    pub fn of(&self, status: NodeStatus) -> u32 {
        self.0.get(&status).copied().unwrap_or(0)
    }

    /// Nodes to which something may still happen.
    pub fn open(&self) -> u32 {
        self.of(NodeStatus::Pending) + self.of(NodeStatus::Running)
    }

    pub(super) fn add(&mut self, status: NodeStatus) {
        *self.0.entry(status).or_default() += 1;
    }

    /// No status stays with a count of zero, so that equal graphs have equal tallies.
    pub(super) fn take(&mut self, status: NodeStatus) {
        if let Some(count) = self.0.get_mut(&status) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.0.remove(&status);
            }
        }
    }
}
