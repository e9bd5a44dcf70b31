//! Leases ready actions that no commit leased.
//!
//! Woken by a doorbell for actions, by a retry of this worker that comes due, by a slot that becomes free
//! while there was more to do, and by a slow tick. The tick is also the repair: it finds actions whose
//! doorbell was lost and actions whose holder died (their lease has run out).
//!
//! A lease takes turns between the tenants with due actions (round robin, [`crate::leasing::due_tenants`]), so that
//! the backlog of one does not delay the others. A tenant over its fair share of the slots is skipped while
//! others have actions due, and a tenant at its quota `action_slots` is skipped until it holds fewer.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use millstream_model::id::TenantId;
use tokio::time::Instant;

use super::periodic::{DutyError, run_once};
use crate::leasing::ActionLeasing;
use crate::leasing::due_tenants::QueueOwner;
use crate::leasing::tenant_slots::TenantSlotReservation;

/// Approximate upper bound on queues per statement.
const QUEUES: usize = 64;
/// Slots that a tenant at its quota gets back within this time are used by one statement.
const FREED_TOGETHER: Duration = Duration::from_millis(5);

pub(crate) async fn run_due_actions(leasing: Arc<ActionLeasing>) {
    while !leasing.env.stop.is_cancelled() {
        tokio::select! {
            biased;
            () = leasing.env.stop.cancelled() => return,
            () = leasing.action_alarm.wait_until_due(leasing.env.jittered(leasing.env.options.tick)) => {}
            () = leasing.leases.tenant_slots().until_freed() => tokio::time::sleep(FREED_TOGETHER).await,
        }
        run_once(&leasing.env, "due actions", lease_due_actions(&leasing)).await;
    }
}

/// Leases until no known action is due, no slot is free, or the worker stops.
async fn lease_due_actions(leasing: &ActionLeasing) -> Result<(), DutyError> {
    match leasing.due_tenants.next_poll(Instant::now()) {
        Some(later) => leasing.action_alarm.set_instant(later),
        None => poll_open_queues(leasing).await?,
    }
    let most = (QUEUES / leasing.queues_per_owner()).max(1);
    loop {
        let mut reserved = tokio::select! {
            biased;
            reserved = leasing.slots.reserve_worthwhile() => reserved,
            () = leasing.env.stop.cancelled() => return Ok(()),
        };
        let slots = reserved.len();
        let is_short = |tenant: &TenantId| leasing.free_slot_quota(tenant) < slots;
        let owners = leasing.due_tenants.next_owners(most, &leasing.barred_tenants(), is_short);
        if owners.is_empty() {
            for tenant in leasing.due_tenants.due_tenants() {
                leasing.leases.tenant_slots().await_room(&tenant, leasing.slot_quota(&tenant));
            }
            return Ok(());
        }
        let asked = Instant::now();
        let aside: Vec<TenantSlotReservation> = owners
            .iter()
            .filter_map(|due| match &due.owner {
                // The tenant of an action in these queues is unknown before the lease.
                QueueOwner::AllTenants => None,
                QueueOwner::Tenant(tenant) => Some(leasing.leases.tenant_slots().reserve_some(
                    tenant,
                    slots,
                    leasing.slot_quota(tenant),
                )),
            })
            .collect();
        let slots = aside.iter().map(TenantSlotReservation::len).fold(slots, usize::min);
        // Slots beyond the limit of these owners are free for commits meanwhile.
        reserved.shrink_to(slots);
        let grant = leasing.lease_grant_of(&owners, slots);
        let leased =
            leasing.env.stores.actions.lease(&leasing.env.options.worker, &grant, leasing.env.now()).await?;
        if leased.len() < slots {
            leasing.due_tenants.forget_exhausted(&owners);
        } else if slots >= grant.queues.len() {
            // Each queue had its turn.
            let served: BTreeSet<&TenantId> =
                leased.iter().map(|action| &action.lease.key.execution.tenant).collect();
            leasing.due_tenants.forget_exhausted(owners.iter().filter(|due| match &due.owner {
                // It is unknown whether an action came from these queues.
                QueueOwner::AllTenants => false,
                QueueOwner::Tenant(tenant) => !served.contains(tenant),
            }));
        }
        leasing.start_actions(leased, &mut reserved, asked);
    }
}

/// Polls the store for tenants with open actions.
async fn poll_open_queues(leasing: &ActionLeasing) -> Result<(), DutyError> {
    let begun = Instant::now();
    let mut open = leasing.env.stores.tasks.open_queues("").await?;
    open.retain(|queue| leasing.can_perform(queue));
    leasing.due_tenants.record_poll(open, begun.elapsed(), Instant::now());
    Ok(())
}
