//! Reading doorbells and deciding what to visit.
//!
//! ```text
//! reader ──┐                          ┌─→ visit (process.rs) ─┐   up to `visits` at a time, and an extra one
//! reclaim ─┼─→ arrivals ─→ drive ─→ kept.rs                   │
//! poll ────┘                          └───────── ended ←──────┘
//! ```
//!
//! `drive` owns all held doorbells and never waits for the network itself. The reader is a task of its own
//! because a read must never be cancelled: the server may already have delivered an entry to it. Beside the
//! backlog of one tenant, one extra visit takes the executions of tenants with few of them, so that they
//! neither share a large commit nor wait for one to end. Doorbells for actions are acknowledged at once: they
//! only wake the loop that leases actions, and the store knows which actions are left.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use millstream_core::id::{ExecutionKey, TenantId};
use millstream_core::pace::{Pace, UnderWay, pace};
use millstream_stream::doorbell::{Bell, Delivery, EntryId, Redelivered};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::kept::{End, Kept, Suspicion, Visit, Why};
use crate::worker::Worker;
use crate::{metrics, process};

/// Executions that need a visit, by source.
#[derive(Debug)]
pub(crate) enum Arrival {
    Rung(Vec<Delivery>),
    /// Found in the store while the stream was down.
    Found(Vec<ExecutionKey>),
}

/// Sizes and start times of the regular visits under way.
#[derive(Debug, Default)]
struct Visits(Vec<(usize, Instant)>);

/// The kind of slot that a visit occupies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VisitPlace {
    Regular,
    /// The extra slot, for tenants without a visit under way.
    Extra,
}

/// A visit that has ended, with its slot.
type VisitEnded = (VisitPlace, Vec<(Visit, End)>);

impl Visits {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn at(&self, now: Instant) -> impl Iterator<Item = UnderWay> {
        self.0.iter().map(move |(items, begun)| UnderWay { items: *items, age: now.duration_since(*begun) })
    }

    /// A visit that was aborted has no result; it is taken for the oldest one.
    fn ended(&mut self, items: usize) {
        let at = self.0.iter().position(|(other, _)| *other == items).unwrap_or(0);
        if at < self.0.len() {
            self.0.remove(at);
        }
    }
}

/// Events of the driver loop.
enum Next {
    Arrived(Option<Arrival>),
    Ended(VisitEnded),
    KeptIsDue,
    Refresh,
    Stop,
}

/// State of the driver when it stops.
pub(crate) struct Holding {
    kept: Kept,
    visits: JoinSet<VisitEnded>,
}

/// Visits executions as their doorbells arrive, until the worker stops.
pub(crate) async fn drive(worker: &Arc<Worker>, arrivals: &mut mpsc::Receiver<Arrival>) -> Holding {
    let mut kept = Kept::with_weights(&worker.options.weights);
    let mut visits = JoinSet::new();
    let mut extra_is_free = true;
    let mut under_way = Visits::default();
    // Acks of doorbells for actions, and refreshes: fire and forget.
    let mut background = JoinSet::new();
    let mut refresh = tokio::time::interval(worker.options.reclaim_idle / 3);
    refresh.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let bearable = worker.unsettled.is_bearable();
        if bearable && extra_is_free {
            let batch = kept.take_beside_backlog(worker.options.batch, Instant::now());
            if !batch.is_empty() {
                extra_is_free = false;
                visits.spawn(guarded(Arc::clone(worker), VisitPlace::Extra, batch));
            }
        }
        let mut hold = None;
        while bearable && under_way.len() < worker.options.visits {
            let now = Instant::now();
            let ready = kept.ready(now).min(worker.options.batch);
            if ready == 0 {
                break;
            }
            if let Pace::Wait(longest) = pace(ready, under_way.at(now)) {
                hold = Some(now + longest);
                break;
            }
            let batch = kept.take(worker.options.batch, now);
            if batch.is_empty() {
                break;
            }
            under_way.0.push((batch.len(), now));
            visits.spawn(guarded(Arc::clone(worker), VisitPlace::Regular, batch));
        }
        let free = bearable && under_way.len() < worker.options.visits;
        if extra_is_free && (!free || hold.is_some()) {
            // Backpressure: deciding waits for the settling of tenants that hold slots, and of no other
            // tenant.
            let passes = |tenant: &TenantId| bearable || worker.holds_few_slots(tenant);
            let batch = kept.take_newcomers(worker.options.batch, Instant::now(), passes);
            if !batch.is_empty() {
                extra_is_free = false;
                visits.spawn(guarded(Arc::clone(worker), VisitPlace::Extra, batch));
            }
        }
        let due = kept.next().filter(|_| free && hold.is_none()).or(hold);
        let next = tokio::select! {
            // Batching: everything that has arrived goes with the next visit; more per visit means fewer
            // commits. `held` is the bound.
            biased;
            () = worker.stop.cancelled() => Next::Stop,
            arrival = arrivals.recv(), if kept.len() < worker.options.held => Next::Arrived(arrival),
            Some(ended) = visits.join_next(), if !visits.is_empty() => {
                let (place, ended) = finished(ended);
                match place {
                    VisitPlace::Regular => under_way.ended(ended.len()),
                    VisitPlace::Extra => extra_is_free = true,
                }
                Next::Ended((place, ended))
            }
            () = sleep_until(due), if due.is_some() => Next::KeptIsDue,
            () = worker.unsettled.bearable(), if !bearable => Next::KeptIsDue,
            _ = refresh.tick() => Next::Refresh,
        };
        while background.try_join_next().is_some() {}
        match next {
            Next::Arrived(Some(arrival)) => {
                arrived(worker, &mut kept, &mut background, arrival);
                mind_full_tenants(worker, &kept, &mut background);
            }
            Next::Ended((_, ended)) => {
                note(worker, &mut kept, ended);
                mind_full_tenants(worker, &kept, &mut background);
            }
            Next::KeptIsDue => {}
            Next::Refresh => {
                #[expect(clippy::cast_precision_loss, reason = "bounded by the held option")]
                ::metrics::gauge!(metrics::HELD, "worker" => worker.options.worker.to_string())
                    .set(kept.len() as f64);
                background.spawn(keep_fresh(Arc::clone(worker), kept.entries()));
            }
            // All senders are gone: only when the worker stops.
            Next::Arrived(None) | Next::Stop => return Holding { kept, visits },
        }
    }
}

/// Waits for the visits under way; those that exceed the deadline are left to reclaim.
pub(crate) async fn finish_visits(worker: &Worker, held: Holding, deadline: Instant) -> Kept {
    let Holding { mut kept, mut visits } = held;
    while let Ok(Some(ended)) = tokio::time::timeout_at(deadline, visits.join_next()).await {
        note(worker, &mut kept, finished(ended).1);
    }
    kept
}

fn note(worker: &Worker, kept: &mut Kept, ended: Vec<(Visit, End)>) {
    for (visit, end) in ended {
        kept.ended(visit, end, Instant::now(), worker.unit());
    }
}

/// Runs a visit. After a panic that the visit's own guard did not catch, all its executions are suspected.
async fn guarded(worker: Arc<Worker>, place: VisitPlace, batch: Vec<Visit>) -> VisitEnded {
    let copy = batch.clone();
    let ended = match AssertUnwindSafe(process::visit(worker, batch)).catch_unwind().await {
        Ok(ended) => ended,
        Err(panic) => {
            let why = process::panic_text(&*panic);
            tracing::error!(error = %why, "visit panicked");
            let failed = || End::Kept(Why::Failed { why: why.clone() });
            copy.into_iter().map(|visit| (visit, failed())).collect()
        }
    };
    (place, ended)
}

/// Reports full tenants to the reader, and asks for more doorbells of those that are no longer full.
fn mind_full_tenants(worker: &Arc<Worker>, kept: &Kept, background: &mut JoinSet<()>) {
    let full = kept.full_tenants(worker.options.held, worker.options.batch);
    let wanted = worker.full_tenants.replace(full);
    if !wanted.is_empty() {
        background.spawn(replenish(Arc::clone(worker), wanted));
    }
}

/// A lost request is repeated by the next check of the overflow.
async fn replenish(worker: Arc<Worker>, tenants: Vec<TenantId>) {
    if let Err(error) = worker.deps.streams.bells.replenish(&tenants).await {
        worker.stream_outage.met(&error);
    }
}

pub(crate) fn arrived(worker: &Arc<Worker>, kept: &mut Kept, background: &mut JoinSet<()>, arrival: Arrival) {
    match arrival {
        Arrival::Found(executions) => {
            for execution in executions {
                kept.arrive(execution, None, Suspicion::None);
            }
        }
        Arrival::Rung(deliveries) => {
            ::metrics::counter!(metrics::DELIVERIES).increment(deliveries.len() as u64);
            let mut for_actions = Vec::new();
            for Delivery { entry, bell, redelivered } in deliveries {
                let suspicion = match redelivered {
                    Redelivered::First => Suspicion::None,
                    Redelivered::Again => Suspicion::Redelivered,
                };
                match bell {
                    Bell::Mailbox(execution) => kept.arrive(execution, Some(entry), suspicion),
                    Bell::Actions(execution) => {
                        worker.due_tenants.hear(&execution.tenant);
                        for_actions.push(entry);
                    }
                }
            }
            if !for_actions.is_empty() {
                worker.hunger.set(Instant::now());
                worker.node_hunger.set(Instant::now());
                // A lost or late ack is harmless: the doorbell is reclaimed and acknowledged then.
                background.spawn(ack_quietly(Arc::clone(worker), for_actions));
            }
        }
    }
}

async fn ack_quietly(worker: Arc<Worker>, entries: Vec<EntryId>) {
    if let Err(error) = worker.deps.streams.bells.ack(&entries).await {
        worker.stream_outage.met(&error);
    }
}

/// Refreshes held doorbells in the stream, so that no other worker reclaims them.
async fn keep_fresh(worker: Arc<Worker>, entries: Vec<EntryId>) {
    if entries.is_empty() {
        return;
    }
    if let Err(error) = worker.deps.streams.bells.refresh(&worker.options.worker, &entries).await {
        worker.stream_outage.met(&error);
    }
}

/// A visit never panics; an aborted one leaves its doorbells to reclaim.
fn finished(ended: Result<VisitEnded, tokio::task::JoinError>) -> VisitEnded {
    ended.unwrap_or_else(|error| {
        tracing::error!(error = %error, "visit ended without a result");
        (VisitPlace::Regular, Vec::new())
    })
}

async fn sleep_until(instant: Option<Instant>) {
    tokio::time::sleep_until(instant.unwrap_or_else(|| Instant::now() + Duration::from_secs(1))).await;
}
