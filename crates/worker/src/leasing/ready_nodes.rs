//! The nodes that a commit makes ready, and those of them that are leased with it.
//!
//! A kind is leased completely or not at all: where executors lack capacity for all of its nodes, or older
//! ones wait in the store, the duty for nodes leases them in order.

use std::collections::BTreeMap;
use std::sync::Arc;

use millstream_model::action_queue::ActionQueue;
use millstream_model::id::ActionKey;
use millstream_model::status::ActionStatus;
use millstream_store::action_store::LeasedAction;
use millstream_store::execution_store::{ExecutionCommit, LeaseGrant, NewAction};

use super::action_leasing::ActionLeasing;
use super::action_slots::WorkSlot;
use super::node_slots::NodeSlot;

#[derive(Debug, Default)]
pub(crate) struct ReadyNodes {
    kinds: BTreeMap<ActionQueue, ReadyKind>,
    slots: BTreeMap<ActionKey, NodeSlot>,
}

#[derive(Debug, Default)]
struct ReadyKind {
    keys: Vec<ActionKey>,
    claimed: bool,
}

impl ReadyNodes {
    pub(crate) fn of_commits(batch: &[ExecutionCommit]) -> Self {
        let mut nodes = Self::default();
        for action in batch.iter().flat_map(|commit| &commit.actions) {
            if action.status == ActionStatus::Ready && action.terms.queue.is_of_nodes() {
                nodes.kinds.entry(action.terms.queue.clone()).or_default().keys.push(action.key.clone());
            }
        }
        nodes
    }

    /// Reserves slots for the nodes that can be leased with the commit.
    pub(crate) fn reserve_slots(&mut self, leasing: &ActionLeasing) {
        for (queue, kind) in &mut self.kinds {
            let count = kind.keys.len();
            let slots = leasing.node_slots.reserve_all(&leasing.executors, &leasing.quotas, queue, count);
            kind.claimed = !slots.is_empty();
            self.slots.extend(kind.keys.iter().cloned().zip(slots));
        }
    }

    pub(crate) fn extend_grant(&self, grant: LeaseGrant) -> LeaseGrant {
        if self.slots.is_empty() {
            return grant;
        }
        let claimed = self.kinds.iter().filter(|(_, kind)| kind.claimed).map(|(queue, _)| queue.clone());
        let queues: Arc<[ActionQueue]> = grant.queues.iter().cloned().chain(claimed).collect();
        LeaseGrant { slots: grant.slots + self.slots.len(), queues, ..grant }
    }

    /// Splits the nodes into those with slots and the rest.
    pub(crate) fn split_leased(
        &mut self,
        leased: Vec<LeasedAction>,
    ) -> (Vec<(LeasedAction, WorkSlot)>, Vec<LeasedAction>) {
        let (mut nodes, mut rest) = (Vec::new(), Vec::new());
        for action in leased {
            match self.slots.remove(&action.lease.key) {
                Some(slot) => nodes.push((action, WorkSlot::Node(slot))),
                None => rest.push(action),
            }
        }
        (nodes, rest)
    }

    /// After the commit: leaves the other nodes to the duty. Returns whether other workers should be
    /// notified.
    pub(crate) fn mark_rest_behind(&self, leasing: &ActionLeasing) -> bool {
        leasing
            .node_slots
            .mark_behind(self.kinds.iter().filter(|(_, kind)| !kind.claimed).map(|(queue, _)| queue))
    }

    /// Number of a commit's nodes that were not leased with it.
    pub(crate) fn count_not_leased(&self, commit: &ExecutionCommit) -> usize {
        let left = |action: &&NewAction| {
            action.status == ActionStatus::Ready
                && self.kinds.get(&action.terms.queue).is_some_and(|kind| !kind.claimed)
        };
        commit.actions.iter().filter(left).count()
    }
}
