//! Settling: records the outcomes of attempts, in batches.
//!
//! The reports that arrive while a settlement is in flight form the next batch, round robin between tenants
//! ([`crate::settle_queue`]). A report keeps its lease and its slot until the store has recorded it; the slot
//! then goes to a dependent that became ready, if there is one. While the store is unavailable reports are
//! kept and retried; the epoch makes a late one harmless, and only the store's answer that the lease has
//! passed on invalidates it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use millstream_model::error_class::ErrorClass;
use millstream_model::id::{IncidentId, TenantId};
use millstream_model::incident::NewIncident;
use millstream_model::raw::RawJson;
use millstream_store::StoreError;
use millstream_store::action_store::{AfterFailure, SettleOutcome, SettleVerdict, SettledBatch, Settlement};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::leasing::ActionLeasing;
use crate::leasing::action_slots::{ReservedSlots, WorkSlot};
use crate::leasing::tenant_slots::TenantSlotReservation;
use crate::metrics;
use crate::notifications::WriteNotifications;
use crate::perform::attempt::AttemptReport;
use crate::perform::attempt_contract::internal_error;
use crate::settle_queue::{BATCH, SettleQueue};

const REFUSED: &str = "its outcome could not be stored";

pub(crate) async fn run_settling(leasing: Arc<ActionLeasing>, mut reports: mpsc::Receiver<AttemptReport>) {
    let mut queue = SettleQueue::default();
    let mut under_way = FuturesUnordered::new();
    let mut arrived = Vec::new();
    let mut is_open = true;
    loop {
        while let Some((place, batch)) = queue.next_batch() {
            let leasing = &leasing;
            under_way.push(async move {
                let reports = batch.len();
                settle_batch(leasing, batch).await;
                (place, reports)
            });
        }
        if !is_open && under_way.is_empty() {
            return;
        }
        tokio::select! {
            biased;
            taken = reports.recv_many(&mut arrived, BATCH), if is_open => is_open = taken > 0,
            Some((place, reports)) = under_way.next() => {
                queue.batch_ended(place);
                leasing.unsettled.remove_reports(reports);
            }
            () = leasing.env.halt.cancelled() => break,
        }
        for report in arrived.drain(..) {
            let tenant = report.settlement.lease.key.execution.tenant.clone();
            queue.push_outcome(&tenant, report);
        }
    }
    while under_way.next().await.is_some() {}
}

/// Settles a batch completely: each report is recorded, stale, or refused one by one.
async fn settle_batch(leasing: &ActionLeasing, batch: Vec<AttemptReport>) {
    let mut groups = VecDeque::from([batch]);
    let mut patience = Duration::from_millis(50);
    while let Some(mut group) = groups.pop_front() {
        group.retain(|report| !report.held.is_lost());
        if group.is_empty() {
            continue;
        }
        let settlements: Vec<Settlement> = group.iter().map(|report| report.settlement.clone()).collect();
        // The effects of a node's outcome are decided first.
        let of_actions = group.iter().filter(|report| matches!(report.slot, WorkSlot::Action(_)));
        let mut freed: BTreeMap<&TenantId, usize> = BTreeMap::new();
        for report in of_actions {
            *freed.entry(&report.settlement.lease.key.execution.tenant).or_default() += 1;
        }
        let slots = if leasing.env.stop.is_cancelled() { 0 } else { freed.values().sum() };
        // All slots may go to one tenant, beyond its own.
        let beyond = freed.iter().map(|(tenant, own)| (*tenant, slots.saturating_sub(*own))).collect();
        let mut barred = BTreeSet::new();
        let aside = leasing.reserve_tenant_slots(beyond, &mut barred);
        let grant = match barred.is_empty() {
            true => leasing.lease_grant(slots),
            false => leasing.lease_grant_except(&barred, freed.into_keys()).with_slots(slots),
        };
        let asked = Instant::now();
        let settled = leasing
            .env
            .stores
            .actions
            .settle_actions(&leasing.env.options.worker, &settlements, &grant, leasing.env.now())
            .await;
        match settled {
            Ok(settled) => {
                ::metrics::histogram!(metrics::SETTLE_SECONDS).record(asked.elapsed().as_secs_f64());
                leasing.env.store_outage.record_success();
                patience = Duration::from_millis(50);
                publish_settled(leasing, group, settled, aside, asked).await;
            }
            Err(StoreError::Contention(_)) => {
                tokio::time::sleep(leasing.env.jittered(Duration::from_millis(5))).await;
                groups.push_front(group);
            }
            Err(error @ StoreError::Unavailable(_)) => {
                leasing.env.store_outage.record_failure(&error);
                tokio::select! {
                    biased;
                    () = tokio::time::sleep(leasing.env.jittered(patience)) => {}
                    // Handed back by the drain.
                    () = leasing.env.halt.cancelled() => return,
                }
                patience = (patience * 2).min(Duration::from_secs(2));
                groups.push_front(group);
            }
            Err(StoreError::Corrupt(reason)) => groups.extend(bisect_reports(leasing, group, &reason)),
        }
    }
}

/// Halves the batch, so that one report fails alone; that one becomes a failure that can be stored.
fn bisect_reports(
    leasing: &ActionLeasing,
    mut group: Vec<AttemptReport>,
    reason: &str,
) -> Vec<Vec<AttemptReport>> {
    if group.len() > 1 {
        let rest = group.split_off(group.len() / 2);
        return vec![group, rest];
    }
    let Some(mut report) = group.pop() else { return Vec::new() };
    let message = format!("{REFUSED}: {reason}");
    tracing::error!(action.key = %report.settlement.lease.key, error = %reason, "the store refused an action's outcome");
    let incident = NewIncident {
        id: IncidentId(leasing.env.new_event_id().0),
        class: ErrorClass::Internal,
        reason: message.clone(),
    };
    let refused = SettleOutcome::Failed {
        error: RawJson::from_value(&internal_error(message)),
        then: AfterFailure::Incident(incident),
    };
    match std::mem::replace(&mut report.settlement.outcome, refused) {
        // Even that was refused: the lease runs out and the action is performed again.
        SettleOutcome::Failed { then: AfterFailure::Incident(before), .. }
            if before.reason.starts_with(REFUSED) =>
        {
            Vec::new()
        }
        SettleOutcome::Succeeded { .. }
        | SettleOutcome::Retry { .. }
        | SettleOutcome::Postponed { .. }
        | SettleOutcome::Awaiting { .. }
        | SettleOutcome::Failed { .. } => vec![vec![report]],
    }
}

async fn publish_settled(
    leasing: &ActionLeasing,
    group: Vec<AttemptReport>,
    settled: SettledBatch,
    aside: Vec<TenantSlotReservation>,
    asked: Instant,
) {
    let mut notifications = WriteNotifications::default();
    let mut reserved = ReservedSlots::default();
    let mut somewhere = BTreeMap::new();
    for (report, verdict) in group.into_iter().zip(settled.verdicts) {
        let AttemptReport { settlement, held, slot } = report;
        drop(held);
        reserved.put_slot(slot);
        let key = settlement.lease.key;
        match verdict {
            SettleVerdict::Stale => {
                ::metrics::counter!(metrics::LEASES_LOST).increment(1);
                continue;
            }
            SettleVerdict::Recorded { event: _ } => {}
        }
        notifications.announce_transition(&key.execution, key.seq, settlement.event_id);
        match settlement.outcome {
            SettleOutcome::Succeeded { emit: Some(_), .. }
            | SettleOutcome::Failed { then: AfterFailure::Emit(_), .. } => {
                notifications.ring_mailbox(key.execution.clone());
            }
            SettleOutcome::Retry { at, .. } | SettleOutcome::Postponed { at, .. } => {
                leasing.action_alarm.set_instant(leasing.env.instant_of(at));
                leasing.node_alarm.set_instant(leasing.env.instant_of(at));
            }
            SettleOutcome::Succeeded { emit: None, .. }
            | SettleOutcome::Awaiting { .. }
            | SettleOutcome::Failed { then: AfterFailure::Incident(_) | AfterFailure::Compensate, .. } => {}
        }
        somewhere.insert(key.execution.tenant.clone(), key.execution);
    }
    leasing.start_actions(settled.leased, &mut reserved, asked);
    drop((reserved, aside));
    if settled.unleased > 0 {
        // The tenant is not known here.
        for (tenant, execution) in somewhere {
            leasing.note_due_actions(&tenant);
            notifications.announce_tasks(&execution);
            notifications.ring_actions(execution);
        }
    }
    // The overdue sweep finds a mailbox without a doorbell.
    let _ = notifications.publish(&leasing.env, std::future::ready(())).await;
}
