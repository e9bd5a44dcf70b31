//! Leases ready actions that no commit leased.
//!
//! Woken by a doorbell for actions, by a retry of this worker that comes due, by a slot that becomes free
//! while there was more to do, and by a slow tick. The tick is also the repair: it finds actions whose
//! doorbell was lost and actions whose holder died (their lease has run out).
//!
//! A lease takes turns between the tenants with due actions (round robin, [`crate::due_tenants`]), so that
//! the backlog of one does not delay the others. A tenant over its fair share of the slots is skipped while
//! others have actions due, and a tenant at its quota `action_slots` is skipped until it holds fewer.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use millstream_model::id::TenantId;
use tokio::time::Instant;

use super::periodic::{DutyError, run_once};
use crate::context::WorkerContext;
use crate::due_tenants::QueueOwner;
use crate::perform::tenant_slots::TenantSlotReservation;
use crate::post_commit::PostCommit;

/// Approximate upper bound on queues per statement.
const QUEUES: usize = 64;
/// Slots that a tenant at its quota gets back within this time are used by one statement.
const FREED_TOGETHER: Duration = Duration::from_millis(5);

pub(crate) async fn run_due_actions(worker: Arc<WorkerContext>) {
    while !worker.stop.is_cancelled() {
        tokio::select! {
            biased;
            () = worker.stop.cancelled() => return,
            () = worker.hunger.wait_until_due(worker.jittered(worker.options.tick)) => {}
            () = worker.leases.tenant_slots().until_freed() => tokio::time::sleep(FREED_TOGETHER).await,
        }
        run_once(&worker, "due actions", lease_due_actions(&worker)).await;
    }
}

/// Leases until no known action is due, no slot is free, or the worker stops.
async fn lease_due_actions(worker: &WorkerContext) -> Result<(), DutyError> {
    match worker.due_tenants.next_poll(Instant::now()) {
        Some(later) => worker.hunger.set_instant(later),
        None => poll_open_queues(worker).await?,
    }
    let most = (QUEUES / worker.queues_per_owner()).max(1);
    loop {
        let mut reserved = tokio::select! {
            biased;
            reserved = worker.slots.reserve_worthwhile() => reserved,
            () = worker.stop.cancelled() => return Ok(()),
        };
        let slots = reserved.len();
        let is_short = |tenant: &TenantId| worker.free_slot_quota(tenant) < slots;
        let owners = worker.due_tenants.next_owners(most, &worker.barred_tenants(), is_short);
        if owners.is_empty() {
            for tenant in worker.due_tenants.due_tenants() {
                worker.leases.tenant_slots().await_room(&tenant, worker.slot_quota(&tenant));
            }
            return Ok(());
        }
        let asked = Instant::now();
        let aside: Vec<TenantSlotReservation> = owners
            .iter()
            .filter_map(|due| match &due.owner {
                // The tenant of an action in these queues is unknown before the lease.
                QueueOwner::AllTenants => None,
                QueueOwner::Tenant(tenant) => {
                    Some(worker.leases.tenant_slots().reserve_some(tenant, slots, worker.slot_quota(tenant)))
                }
            })
            .collect();
        let slots = aside.iter().map(TenantSlotReservation::len).fold(slots, usize::min);
        // Slots beyond the limit of these owners are free for commits meanwhile.
        reserved.shrink_to(slots);
        let grant = worker.lease_grant_of(&owners, slots);
        let leased = worker.deps.stores.actions.lease(&worker.options.worker, &grant, worker.now()).await?;
        if leased.len() < slots {
            worker.due_tenants.forget_exhausted(&owners);
        } else if slots >= grant.queues.len() {
            // Each queue had its turn.
            let served: BTreeSet<&TenantId> =
                leased.iter().map(|action| &action.lease.key.execution.tenant).collect();
            worker.due_tenants.forget_exhausted(owners.iter().filter(|due| match &due.owner {
                // It is unknown whether an action came from these queues.
                QueueOwner::AllTenants => false,
                QueueOwner::Tenant(tenant) => !served.contains(tenant),
            }));
        }
        PostCommit::default().start_actions(worker, leased, &mut reserved, asked);
    }
}

/// Polls the store for tenants with open actions.
async fn poll_open_queues(worker: &WorkerContext) -> Result<(), DutyError> {
    let begun = Instant::now();
    let mut open = worker.deps.stores.tasks.open_queues("").await?;
    open.retain(|queue| worker.can_perform(queue));
    worker.due_tenants.record_poll(open, begun.elapsed(), Instant::now());
    Ok(())
}
