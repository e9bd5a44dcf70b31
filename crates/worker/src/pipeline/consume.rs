//! Reading doorbells and deciding what to visit.
//!
//! ```text
//! reader ──┐                          ┌─→ visit (process.rs) ─┐   up to `visits` at a time, and an extra one
//! reclaim ─┼─→ arrivals ─→ drive_visits ─→ inbox.rs                   │
//! poll ────┘                          └───────── ended ←──────┘
//! ```
//!
//! `drive_visits` owns all held doorbells and never waits for the network itself. The reader is a task of its own
//! because a read must never be cancelled: the server may already have delivered an entry to it. Beside the
//! backlog of one tenant, one extra visit takes the executions of tenants with few of them, so that they
//! neither share a large commit nor wait for one to end. Doorbells for actions are acknowledged at once: they
//! only wake the loop that leases actions, and the store knows which actions are left.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use millstream_model::batch_pacing::{BatchPacing, InFlightBatch, decide_batch_start};
use millstream_model::id::{ExecutionKey, TenantId};
use millstream_stream::doorbell::{Doorbell, DoorbellDelivery, RedeliveryMark, StreamEntryId};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::decider::MailboxDecider;
use super::inbox::{Inbox, MailboxVisit, RetryReason, VisitOutcome, VisitSuspicion};
use super::process;
use crate::environment::WorkerEnvironment;
use crate::metrics;
use crate::panic_text::panic_text;

/// Executions that need a visit, by source.
#[derive(Debug)]
pub(crate) enum DoorbellArrival {
    Rung(Vec<DoorbellDelivery>),
    /// Found in the store while the stream was down.
    Found(Vec<ExecutionKey>),
}

/// Sizes and start times of the regular visits under way.
#[derive(Debug, Default)]
struct RunningVisits(Vec<(usize, Instant)>);

/// The kind of slot that a visit occupies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VisitPlace {
    Regular,
    /// The extra slot, for tenants without a visit under way.
    Extra,
}

/// A visit that has ended, with its slot.
type VisitEnded = (VisitPlace, Vec<(MailboxVisit, VisitOutcome)>);

impl RunningVisits {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn under_way(&self, now: Instant) -> impl Iterator<Item = InFlightBatch> {
        self.0
            .iter()
            .map(move |(items, begun)| InFlightBatch { items: *items, age: now.duration_since(*begun) })
    }

    /// A visit that was aborted has no result; it is taken for the oldest one.
    fn end_visit(&mut self, items: usize) {
        let at = self.0.iter().position(|(other, _)| *other == items).unwrap_or(0);
        if at < self.0.len() {
            self.0.remove(at);
        }
    }
}

/// Events of the driver loop.
enum DriverEvent {
    Arrived(Option<DoorbellArrival>),
    Ended(VisitEnded),
    KeptIsDue,
    Refresh,
    Stop,
}

/// State of the driver when it stops.
pub(crate) struct DriverState {
    kept: Inbox,
    visits: JoinSet<VisitEnded>,
}

/// Visits executions as their doorbells arrive, until the worker stops.
pub(crate) async fn drive_visits(
    decider: &Arc<MailboxDecider>,
    arrivals: &mut mpsc::Receiver<DoorbellArrival>,
) -> DriverState {
    let mut kept = Inbox::with_weights(&decider.env.options.weights);
    let mut visits = JoinSet::new();
    let mut extra_is_free = true;
    let mut under_way = RunningVisits::default();
    // Acks of doorbells for actions, and refreshes: fire and forget.
    let mut background = JoinSet::new();
    let mut refresh = tokio::time::interval(decider.env.options.reclaim_idle / 3);
    refresh.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let bearable = decider.leasing.has_settle_capacity();
        if bearable && extra_is_free {
            let batch = kept.take_beside_backlog(decider.env.options.batch, Instant::now());
            if !batch.is_empty() {
                extra_is_free = false;
                visits.spawn(visit_catching_panics(Arc::clone(decider), VisitPlace::Extra, batch));
            }
        }
        let mut hold = None;
        while bearable && under_way.len() < decider.env.options.visits {
            let now = Instant::now();
            let ready = kept.count_ready(now).min(decider.env.options.batch);
            if ready == 0 {
                break;
            }
            if let BatchPacing::Wait(longest) = decide_batch_start(ready, under_way.under_way(now)) {
                hold = Some(now + longest);
                break;
            }
            let batch = kept.take_visits(decider.env.options.batch, now);
            if batch.is_empty() {
                break;
            }
            under_way.0.push((batch.len(), now));
            visits.spawn(visit_catching_panics(Arc::clone(decider), VisitPlace::Regular, batch));
        }
        let free = bearable && under_way.len() < decider.env.options.visits;
        if extra_is_free && (!free || hold.is_some()) {
            // Backpressure: deciding waits for the settling of tenants that hold slots, and of no other
            // tenant.
            let passes = |tenant: &TenantId| bearable || decider.leasing.holds_few_slots(tenant);
            let batch = kept.take_newcomers(decider.env.options.batch, Instant::now(), passes);
            if !batch.is_empty() {
                extra_is_free = false;
                visits.spawn(visit_catching_panics(Arc::clone(decider), VisitPlace::Extra, batch));
            }
        }
        let due = kept.next_retry().filter(|_| free && hold.is_none()).or(hold);
        let next = tokio::select! {
            // Batching: everything that has arrived goes with the next visit; more per visit means fewer
            // commits. `held` is the bound.
            biased;
            () = decider.env.stop.cancelled() => DriverEvent::Stop,
            arrival = arrivals.recv(), if kept.len() < decider.env.options.held => DriverEvent::Arrived(arrival),
            Some(ended) = visits.join_next(), if !visits.is_empty() => {
                let (place, ended) = visit_result(ended);
                match place {
                    VisitPlace::Regular => under_way.end_visit(ended.len()),
                    VisitPlace::Extra => extra_is_free = true,
                }
                DriverEvent::Ended((place, ended))
            }
            () = sleep_until(due), if due.is_some() => DriverEvent::KeptIsDue,
            () = decider.leasing.wait_for_settle_capacity(), if !bearable => DriverEvent::KeptIsDue,
            _ = refresh.tick() => DriverEvent::Refresh,
        };
        while background.try_join_next().is_some() {}
        match next {
            DriverEvent::Arrived(Some(arrival)) => {
                take_arrival(decider, &mut kept, &mut background, arrival);
                update_full_tenants(decider, &kept, &mut background);
            }
            DriverEvent::Ended((_, ended)) => {
                note_ended_visits(&decider.env, &mut kept, ended);
                update_full_tenants(decider, &kept, &mut background);
            }
            DriverEvent::KeptIsDue => {}
            DriverEvent::Refresh => {
                let me = &decider.env.options.worker;
                #[expect(clippy::cast_precision_loss, reason = "bounded by the held option")]
                ::metrics::gauge!(metrics::HELD, "worker" => me.to_string()).set(kept.len() as f64);
                background.spawn(refresh_doorbells(Arc::clone(&decider.env), kept.held_entries()));
            }
            // All senders are gone: only when the worker stops.
            DriverEvent::Arrived(None) | DriverEvent::Stop => return DriverState { kept, visits },
        }
    }
}

/// Waits for the visits under way; those that exceed the deadline are left to reclaim.
pub(crate) async fn finish_visits(env: &WorkerEnvironment, held: DriverState, deadline: Instant) -> Inbox {
    let DriverState { mut kept, mut visits } = held;
    while let Ok(Some(ended)) = tokio::time::timeout_at(deadline, visits.join_next()).await {
        note_ended_visits(env, &mut kept, visit_result(ended).1);
    }
    kept
}

fn note_ended_visits(env: &WorkerEnvironment, kept: &mut Inbox, ended: Vec<(MailboxVisit, VisitOutcome)>) {
    for (visit, end) in ended {
        kept.end_visit(visit, end, Instant::now(), env.random_unit());
    }
}

/// Runs a visit. After a panic that the visit's own guard did not catch, all its executions are suspected.
async fn visit_catching_panics(
    decider: Arc<MailboxDecider>,
    place: VisitPlace,
    batch: Vec<MailboxVisit>,
) -> VisitEnded {
    let copy = batch.clone();
    let ended = match AssertUnwindSafe(process::visit_batch(decider, batch)).catch_unwind().await {
        Ok(ended) => ended,
        Err(panic) => {
            let why = panic_text(&*panic);
            tracing::error!(error = %why, "visit panicked");
            let failed = || VisitOutcome::Kept(RetryReason::Failed { why: why.clone() });
            copy.into_iter().map(|visit| (visit, failed())).collect()
        }
    };
    (place, ended)
}

/// Reports full tenants to the reader, and asks for more doorbells of those that are no longer full.
fn update_full_tenants(decider: &Arc<MailboxDecider>, kept: &Inbox, background: &mut JoinSet<()>) {
    let full = kept.full_tenants(decider.env.options.held, decider.env.options.batch);
    let wanted = decider.full_tenants.replace_all(full);
    if !wanted.is_empty() {
        background.spawn(replenish_lanes(Arc::clone(&decider.env), wanted));
    }
}

/// A lost request is repeated by the next check of the overflow.
async fn replenish_lanes(env: Arc<WorkerEnvironment>, tenants: Vec<TenantId>) {
    if let Err(error) = env.streams.bells.replenish_tenants(&tenants).await {
        env.stream_outage.record_failure(&error);
    }
}

pub(crate) fn take_arrival(
    decider: &Arc<MailboxDecider>,
    kept: &mut Inbox,
    background: &mut JoinSet<()>,
    arrival: DoorbellArrival,
) {
    match arrival {
        DoorbellArrival::Found(executions) => {
            for execution in executions {
                kept.enqueue_delivery(execution, None, VisitSuspicion::None);
            }
        }
        DoorbellArrival::Rung(deliveries) => {
            ::metrics::counter!(metrics::DELIVERIES).increment(deliveries.len() as u64);
            let mut for_actions = Vec::new();
            for DoorbellDelivery { entry, bell, redelivered } in deliveries {
                let suspicion = match redelivered {
                    RedeliveryMark::First => VisitSuspicion::None,
                    RedeliveryMark::Again => VisitSuspicion::Redelivered,
                };
                match bell {
                    Doorbell::Mailbox(execution) => kept.enqueue_delivery(execution, Some(entry), suspicion),
                    Doorbell::Actions(execution) => {
                        decider.leasing.note_action_doorbell(&execution.tenant);
                        for_actions.push(entry);
                    }
                }
            }
            if !for_actions.is_empty() {
                decider.leasing.wake();
                // A lost or late ack is harmless: the doorbell is reclaimed and acknowledged then.
                background.spawn(ack_quietly(Arc::clone(&decider.env), for_actions));
            }
        }
    }
}

async fn ack_quietly(env: Arc<WorkerEnvironment>, entries: Vec<StreamEntryId>) {
    if let Err(error) = env.streams.bells.ack_entries(&entries).await {
        env.stream_outage.record_failure(&error);
    }
}

/// Refreshes held doorbells in the stream, so that no other worker reclaims them.
async fn refresh_doorbells(env: Arc<WorkerEnvironment>, entries: Vec<StreamEntryId>) {
    if entries.is_empty() {
        return;
    }
    if let Err(error) = env.streams.bells.refresh_entries(&env.options.worker, &entries).await {
        env.stream_outage.record_failure(&error);
    }
}

/// A visit never panics; an aborted one leaves its doorbells to reclaim.
fn visit_result(ended: Result<VisitEnded, tokio::task::JoinError>) -> VisitEnded {
    ended.unwrap_or_else(|error| {
        tracing::error!(error = %error, "visit ended without a result");
        (VisitPlace::Regular, Vec::new())
    })
}

async fn sleep_until(instant: Option<Instant>) {
    tokio::time::sleep_until(instant.unwrap_or_else(|| Instant::now() + Duration::from_secs(1))).await;
}
