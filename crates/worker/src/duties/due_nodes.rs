//! Leases ready nodes, within the free capacity of the executors.
//!
//! The kinds of open nodes are read again after a doorbell for actions, when a retry of this worker comes
//! due, and at a slow tick, which is also the repair. In between, a kind with more nodes is leased again as
//! soon as enough capacity is free.

use std::collections::BTreeSet;
use std::sync::Arc;

use millstream_model::action_queue::ActionQueue;
use millstream_store::execution_store::LeaseGrant;
use tokio::time::Instant;

use super::periodic::{DutyError, run_once};
use crate::leasing::ActionLeasing;
use crate::leasing::action_slots::WorkSlot;
use crate::leasing::node_slots::LeaseWorth;

/// Upper bound on nodes leased in one statement.
const BATCH: usize = 512;

pub(crate) async fn run_due_nodes(leasing: Arc<ActionLeasing>) {
    let mut unserved = BTreeSet::new();
    let mut turn = 0usize;
    while !leasing.env.stop.is_cancelled() {
        tokio::select! {
            biased;
            () = leasing.env.stop.cancelled() => return,
            () = leasing.node_alarm.wait_until_due(leasing.env.jittered(leasing.env.options.tick)) => {
                run_once(&leasing.env, "kinds of nodes", read_node_kinds(&leasing, &mut unserved)).await;
            }
            () = leasing.node_slots.wait_for_news() => {}
        }
        turn = turn.wrapping_add(1);
        run_once(&leasing.env, "due nodes", lease_due_nodes(&leasing, turn)).await;
    }
}

/// Reads the kinds of open nodes. A kind without a suitable executor is logged once.
async fn read_node_kinds(
    leasing: &ActionLeasing,
    unserved: &mut BTreeSet<ActionQueue>,
) -> Result<(), DutyError> {
    let open = leasing.env.stores.tasks.open_queues(ActionQueue::NODES).await?;
    let mut still_unserved = BTreeSet::new();
    for queue in &open {
        let Some(missing) = leasing.executors.missing_requirement(queue) else { continue };
        if !unserved.contains(queue) {
            tracing::warn!(queue = %queue, missing = %missing, "no executor can perform this kind of node");
        }
        still_unserved.insert(queue.clone());
    }
    *unserved = still_unserved;
    leasing.node_slots.set_open_kinds(&open);
    Ok(())
}

/// Leases each kind in turn, until it has no more nodes or the capacity is exhausted.
async fn lease_due_nodes(leasing: &ActionLeasing, turn: usize) -> Result<(), DutyError> {
    let mut behind = leasing.node_slots.all_behind();
    let first = turn % behind.len().max(1);
    behind.rotate_left(first);
    for behind in behind {
        let queue = &behind.queue;
        let most = (BATCH, LeaseWorth::RoundTrip);
        let mut slots = leasing.node_slots.reserve_some(&leasing.executors, &leasing.quotas, queue, most);
        if slots.is_empty() {
            continue;
        }
        let asked = Instant::now();
        let queues = [queue.clone()].into();
        let grant = LeaseGrant { slots: slots.len(), ttl: leasing.env.options.lease, queues };
        let leased =
            leasing.env.stores.actions.lease(&leasing.env.options.worker, &grant, leasing.env.now()).await?;
        if leased.len() < grant.slots {
            leasing.node_slots.caught_up(&behind);
        }
        for action in leased {
            let Some(slot) = slots.pop() else { break };
            leasing.start_action(action, WorkSlot::Node(slot), asked);
        }
    }
    Ok(())
}
