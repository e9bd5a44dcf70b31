//! Settling: records the outcomes of attempts, in batches.
//!
//! The reports that arrive while a settlement is in flight form the next batch, round robin between tenants
//! ([`crate::settle_queue`]). A report keeps its lease and its slot until the store has recorded it; the slot
//! then goes to a dependent that became ready, if there is one. While the store is unavailable reports are
//! kept and retried; the epoch makes a late one harmless, and only the store's answer that the lease has
//! passed on invalidates it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use millstream_core::action::ErrorClass;
use millstream_core::id::{IncidentId, TenantId};
use millstream_core::incident::NewIncident;
use millstream_core::raw::RawJson;
use millstream_store::StoreError;
use millstream_store::action_store::{AfterFailure, SettleVerdict, Settled, Settlement, Settling};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use crate::aftermath::Aftermath;
use crate::metrics;
use crate::perform::leases::Held;
use crate::perform::outcome::internal;
use crate::perform::slots::{Reserved, Slot};
use crate::perform::tenant_slots::SlotsAside;
use crate::settle_queue::{BATCH, SettleQueue};
use crate::worker::Worker;

const REFUSED: &str = "its outcome could not be stored";

/// Backpressure: the number of attempts that have ended and are not settled yet.
///
/// Each of them holds a slot. When outcomes that wait for the store hold a large part of the slots, further
/// decisions would leave their actions without a slot, to be leased later at the cost of one more write each:
/// deciding then waits for settling. Slow actions do not delay deciding.
#[derive(Debug)]
pub(crate) struct Unsettled {
    count: AtomicUsize,
    bearable: usize,
    fewer: Notify,
}

impl Unsettled {
    pub(crate) fn within(slots: usize) -> Self {
        Self { count: AtomicUsize::new(0), bearable: (slots / 4).max(1), fewer: Notify::new() }
    }

    pub(crate) fn reported(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    fn settled(&self, reports: usize) {
        self.count.fetch_sub(reports, Ordering::Relaxed);
        self.fewer.notify_waiters();
    }

    pub(crate) fn is_bearable(&self) -> bool {
        self.count.load(Ordering::Relaxed) <= self.bearable
    }

    pub(crate) async fn bearable(&self) {
        loop {
            let fewer = self.fewer.notified();
            if self.is_bearable() {
                return;
            }
            fewer.await;
        }
    }
}

/// An attempt that has ended, with its lease and slot.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) settlement: Settlement,
    pub(crate) held: Held,
    pub(crate) slot: Slot,
}

pub(crate) async fn run(worker: Arc<Worker>, mut reports: mpsc::Receiver<Report>) {
    let mut queue = SettleQueue::default();
    let mut under_way = FuturesUnordered::new();
    let mut arrived = Vec::new();
    let mut is_open = true;
    loop {
        while let Some((place, batch)) = queue.next_batch() {
            let worker = &worker;
            under_way.push(async move {
                let reports = batch.len();
                settle(worker, batch).await;
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
                worker.unsettled.settled(reports);
            }
            () = worker.halt.cancelled() => break,
        }
        for report in arrived.drain(..) {
            let tenant = report.settlement.lease.key.execution.tenant.clone();
            queue.push(&tenant, report);
        }
    }
    while under_way.next().await.is_some() {}
}

/// Settles a batch completely: each report is recorded, stale, or refused one by one.
async fn settle(worker: &Worker, batch: Vec<Report>) {
    let mut groups = VecDeque::from([batch]);
    let mut patience = Duration::from_millis(50);
    while let Some(mut group) = groups.pop_front() {
        group.retain(|report| !report.held.is_lost());
        if group.is_empty() {
            continue;
        }
        let settlements: Vec<Settlement> = group.iter().map(|report| report.settlement.clone()).collect();
        // The effects of a node's outcome are decided first.
        let of_actions = group.iter().filter(|report| matches!(report.slot, Slot::Action(_)));
        let tenants: Vec<&TenantId> =
            of_actions.map(|report| &report.settlement.lease.key.execution.tenant).collect();
        let slots = if worker.stop.is_cancelled() { 0 } else { tenants.len() };
        // All slots may go to one tenant.
        let wanted = tenants.iter().map(|tenant| (*tenant, slots)).collect();
        let mut barred = BTreeSet::new();
        let aside = worker.set_slots_aside(wanted, &mut barred);
        let grant = match barred.is_empty() {
            true => worker.grant(slots),
            false => worker.grant_except(&barred, tenants.into_iter()).of(slots),
        };
        let asked = Instant::now();
        let settled = worker
            .deps
            .stores
            .actions
            .settle(&worker.options.worker, &settlements, &grant, worker.now())
            .await;
        match settled {
            Ok(settled) => {
                ::metrics::histogram!(metrics::SETTLE_SECONDS).record(asked.elapsed().as_secs_f64());
                worker.store_outage.over();
                patience = Duration::from_millis(50);
                follow_up(worker, group, settled, aside, asked).await;
            }
            Err(StoreError::Contention(_)) => {
                tokio::time::sleep(worker.around(Duration::from_millis(5))).await;
                groups.push_front(group);
            }
            Err(error @ StoreError::Unavailable(_)) => {
                worker.store_outage.met(&error);
                tokio::select! {
                    biased;
                    () = tokio::time::sleep(worker.around(patience)) => {}
                    // Handed back by the drain.
                    () = worker.halt.cancelled() => return,
                }
                patience = (patience * 2).min(Duration::from_secs(2));
                groups.push_front(group);
            }
            Err(StoreError::Corrupt(reason)) => groups.extend(bisect(worker, group, &reason)),
        }
    }
}

/// Halves the batch, so that one report fails alone; that one becomes a failure that can be stored.
fn bisect(worker: &Worker, mut group: Vec<Report>, reason: &str) -> Vec<Vec<Report>> {
    if group.len() > 1 {
        let rest = group.split_off(group.len() / 2);
        return vec![group, rest];
    }
    let Some(mut report) = group.pop() else { return Vec::new() };
    let message = format!("{REFUSED}: {reason}");
    tracing::error!(action.key = %report.settlement.lease.key, error = %reason, "the store refused an action's outcome");
    let incident = NewIncident {
        id: IncidentId(worker.event_id().0),
        class: ErrorClass::Internal,
        reason: message.clone(),
    };
    let refused =
        Settling::Failed { error: RawJson::of(&internal(message)), then: AfterFailure::Incident(incident) };
    match std::mem::replace(&mut report.settlement.outcome, refused) {
        // Even that was refused: the lease runs out and the action is performed again.
        Settling::Failed { then: AfterFailure::Incident(before), .. }
            if before.reason.starts_with(REFUSED) =>
        {
            Vec::new()
        }
        Settling::Succeeded { .. }
        | Settling::Retry { .. }
        | Settling::Postponed { .. }
        | Settling::Awaiting { .. }
        | Settling::Failed { .. } => vec![vec![report]],
    }
}

async fn follow_up(
    worker: &Worker,
    group: Vec<Report>,
    settled: Settled,
    aside: Vec<SlotsAside>,
    asked: Instant,
) {
    let mut aftermath = Aftermath::default();
    let mut reserved = Reserved::default();
    let mut somewhere = BTreeMap::new();
    for (report, verdict) in group.into_iter().zip(settled.verdicts) {
        let Report { settlement, held, slot } = report;
        drop(held);
        reserved.put(slot);
        let key = settlement.lease.key;
        match verdict {
            SettleVerdict::Stale => {
                ::metrics::counter!(metrics::LEASES_LOST).increment(1);
                continue;
            }
            SettleVerdict::Recorded { event: _ } => {}
        }
        aftermath.news(&key.execution, key.seq, settlement.event_id);
        match settlement.outcome {
            Settling::Succeeded { emit: Some(_), .. }
            | Settling::Failed { then: AfterFailure::Emit(_), .. } => {
                aftermath.ring_mailbox(key.execution.clone());
            }
            Settling::Retry { at, .. } | Settling::Postponed { at, .. } => {
                worker.hunger.set(worker.instant_of(at));
                worker.node_hunger.set(worker.instant_of(at));
            }
            Settling::Succeeded { emit: None, .. }
            | Settling::Awaiting { .. }
            | Settling::Failed { then: AfterFailure::Incident(_) | AfterFailure::Compensate, .. } => {}
        }
        somewhere.insert(key.execution.tenant.clone(), key.execution);
    }
    aftermath.perform(worker, settled.leased, &mut reserved, asked);
    drop((reserved, aside));
    if settled.unleased > 0 {
        // The tenant is not known here.
        for (tenant, execution) in somewhere {
            worker.hear_of_actions(&tenant);
            aftermath.work(&execution);
            aftermath.ring_actions(execution);
        }
    }
    // The overdue sweep finds a mailbox without a doorbell.
    let _ = aftermath.tell(worker, std::future::ready(())).await;
}
