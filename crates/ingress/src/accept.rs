//! Accepting: many requests, one commit.
//!
//! ```text
//! handler ─ submit ─→ bounded queue ─→ dispatcher ─ append(batch) ─→ store
//!    ↑                                     │ after the commit
//!    └───────────── verdicts ←─────────────┴──→ ring
//! ```
//!
//! Whatever arrived while the last commit was in flight is the next batch, capped by count and bytes;
//! one event alone never waits for company. A second commit begins beside it when it is as large
//! ([`millstream_core::pace`]). The commit belongs to the dispatcher and not to the
//! request: a client that goes away cancels nothing, and what was committed is rung.
//!
//! When things fail: a full queue refuses before memory grows. `Contention` wrote nothing and the batch
//! is tried again. `Corrupt` means that one item poisons the rest: the batch is halved until that item
//! stands alone. `Unavailable` leaves the outcome in doubt: everybody is told so (503), nobody is told
//! 202; if it did commit, the client's repeat by key finds it and rings, or the overdue sweep does.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use millstream_core::crash::CrashPoint;
use millstream_core::id::ExecutionKey;
use millstream_core::pace::{Pace, UnderWay, pace};
use millstream_core::status::EventStatus;
use millstream_store::StoreError;
use millstream_store::clock::Clock;
use millstream_store::event_log::{Append, Appended, EventLog, NewEvent};
use millstream_store::graph_store::GraphRows;
use millstream_stream::doorbell::Bell;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::crash;
use crate::options::IngressOptions;
use crate::ring::Ring;
use crate::write_evidence::WriteEvidence;

/// How often a batch that met contention is tried before its callers are told to come back.
const CONTENTION_TRIES: u32 = 20;

/// The verdict on one item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// What the store said.
    Stored(Appended),
    /// The store cannot take this item, whatever it is batched with.
    Refused,
}

/// Why a whole submission failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AcceptError {
    #[error("the queue is full")]
    QueueFull,
    #[error("the store is unavailable")]
    Unavailable,
    #[error("the commit did not finish in time")]
    InDoubt,
    #[error("shutting down")]
    Closed,
}

/// The way into the queue.
#[derive(Debug, Clone)]
pub(crate) struct Accept {
    queue: mpsc::Sender<Submission>,
    bytes: Arc<Semaphore>,
    /// Bytes that the queue may hold.
    most: usize,
    patience: Duration,
    /// How the last commits went.
    pub(crate) writes: WriteEvidence,
}

#[derive(Debug)]
struct Submission {
    items: Vec<Append>,
    bytes: usize,
    /// The place of its bytes in the queue.
    _room: OwnedSemaphorePermit,
    answer: oneshot::Sender<Result<Vec<Verdict>, AcceptError>>,
}

impl Accept {
    /// Starts the dispatcher; it ends when every handle is gone and the queue is empty.
    pub(crate) fn start(
        log: Arc<dyn EventLog>,
        clock: Arc<dyn Clock>,
        ring: Ring,
        options: &IngressOptions,
        tasks: &TaskTracker,
    ) -> Self {
        let limits = &options.limits;
        let (queue, arrivals) = mpsc::channel(limits.queue_items.max(1));
        let writes = WriteEvidence::default();
        let committer = Committer { log, clock, ring, writes: writes.clone(), crash: options.crash };
        let caps = Caps { items: limits.batch_items, bytes: limits.batch_bytes };
        tasks.spawn(dispatch(
            arrivals,
            Arc::new(committer),
            caps,
            options.appenders.clamp(1, 4),
            tasks.clone(),
        ));
        let most = limits.queue_bytes.min(Semaphore::MAX_PERMITS);
        let bytes = Arc::new(Semaphore::new(most));
        Self { queue, bytes, most, patience: options.commit_timeout, writes }
    }

    /// One verdict per item, in order, after the commit that holds them.
    pub(crate) async fn submit(&self, items: Vec<Append>) -> Result<Vec<Verdict>, AcceptError> {
        if items.is_empty() {
            return Ok(Vec::new());
        }
        // One that weighs more than the queue may hold has it for itself.
        let bytes = items.iter().map(size).sum::<usize>().min(self.most);
        let room = self
            .bytes
            .clone()
            .try_acquire_many_owned(u32::try_from(bytes).unwrap_or(u32::MAX))
            .map_err(|_| AcceptError::QueueFull)?;
        let (answer, verdicts) = oneshot::channel();
        self.queue.try_send(Submission { items, bytes, _room: room, answer }).map_err(
            |error| match error {
                mpsc::error::TrySendError::Full(_) => AcceptError::QueueFull,
                mpsc::error::TrySendError::Closed(_) => AcceptError::Closed,
            },
        )?;
        metrics::gauge!("millstream_append_queue_depth").increment(1.0);
        match tokio::time::timeout(self.patience, verdicts).await {
            Ok(Ok(verdicts)) => verdicts,
            Ok(Err(_)) => Err(AcceptError::InDoubt),
            Err(_) => Err(AcceptError::InDoubt),
        }
    }
}

/// The weight of an item: its payloads and a rough row.
fn size(item: &Append) -> usize {
    let event = |event: &NewEvent| event.payload.len() + 512;
    match item {
        Append::Event(new) => event(new),
        Append::Signal(signal) => signal.payload.len() + 512,
        Append::Start(start) => {
            let graph = start.graph.as_deref().map_or(0, graph_size);
            let events = start.events.iter().map(event).sum::<usize>();
            event(&start.start) + start.state.context_bytes() + events + graph
        }
    }
}

/// A graph is in the log, in its blob and in the rows of its nodes.
fn graph_size(rows: &GraphRows) -> usize {
    rows.blob.as_ref().map_or(0, |blob| blob.len()) * 3 + rows.nodes.len() * 64
}

#[derive(Debug, Clone, Copy)]
struct Caps {
    items: usize,
    bytes: usize,
}

/// What has arrived and is not in a commit yet: never much more than one batch, the rest is in the queue.
#[derive(Debug, Default)]
struct Waiting {
    submissions: VecDeque<Submission>,
    items: usize,
}

impl Waiting {
    fn push(&mut self, submission: Submission) {
        self.items += submission.items.len();
        self.submissions.push_back(submission);
    }

    /// As much as one commit takes, but at least one submission.
    fn take(&mut self, caps: Caps) -> Vec<Submission> {
        let (mut items, mut bytes, mut batch) = (0, 0, Vec::new());
        while let Some(next) = self.submissions.front() {
            items += next.items.len();
            bytes += next.bytes;
            if !batch.is_empty() && (items > caps.items || bytes > caps.bytes) {
                break;
            }
            self.items -= next.items.len();
            batch.extend(self.submissions.pop_front());
        }
        batch
    }
}

/// A commit under way.
#[derive(Debug)]
struct Flight {
    id: u64,
    items: usize,
    begun: Instant,
}

/// Says that a commit is over, however it ended.
#[derive(Debug)]
struct Landing {
    id: u64,
    land: mpsc::Sender<u64>,
}

impl Drop for Landing {
    fn drop(&mut self) {
        let _ = self.land.try_send(self.id);
    }
}

async fn dispatch(
    mut arrivals: mpsc::Receiver<Submission>,
    committer: Arc<Committer>,
    caps: Caps,
    appenders: usize,
    tasks: TaskTracker,
) {
    let mut waiting = Waiting::default();
    let mut flights: Vec<Flight> = Vec::new();
    // Room for all that can be under way: whoever lands never waits.
    let (land, mut landed) = mpsc::channel(appenders);
    let (mut next_id, mut closed) = (0, false);
    loop {
        let mut hold = None;
        while !waiting.submissions.is_empty() && flights.len() < appenders {
            let under_way = |flight: &Flight| UnderWay { items: flight.items, age: flight.begun.elapsed() };
            if let Pace::Wait(longest) = pace(waiting.items.min(caps.items), flights.iter().map(under_way)) {
                hold = Some(longest);
                break;
            }
            let batch = waiting.take(caps);
            #[expect(clippy::cast_precision_loss, reason = "a gauge is a double")]
            metrics::gauge!("millstream_append_queue_depth").decrement(batch.len() as f64);
            let items = batch.iter().map(|submission| submission.items.len()).sum();
            next_id += 1;
            flights.push(Flight { id: next_id, items, begun: Instant::now() });
            let (committer, landing) = (committer.clone(), Landing { id: next_id, land: land.clone() });
            tasks.spawn(async move {
                committer.commit(batch).await;
                drop(landing);
            });
        }
        if closed && waiting.submissions.is_empty() {
            return;
        }
        tokio::select! {
            // What has arrived goes with the next flight: the more, the fewer flights. It is bounded by the caps.
            biased;
            arrival = arrivals.recv(), if !closed && waiting.items < caps.items => match arrival {
                Some(first) => {
                    waiting.push(first);
                    while waiting.items < caps.items && let Ok(next) = arrivals.try_recv() {
                        waiting.push(next);
                    }
                }
                None => closed = true,
            },
            Some(id) = landed.recv(), if !flights.is_empty() => flights.retain(|flight| flight.id != id),
            () = tokio::time::sleep(hold.unwrap_or_default()), if hold.is_some() => {}
        }
    }
}

struct Committer {
    log: Arc<dyn EventLog>,
    clock: Arc<dyn Clock>,
    ring: Ring,
    writes: WriteEvidence,
    crash: Option<CrashPoint>,
}

impl Committer {
    async fn commit(&self, batch: Vec<Submission>) {
        let mut items = Vec::with_capacity(batch.iter().map(|submission| submission.items.len()).sum());
        let mut waiting = Vec::with_capacity(batch.len());
        for submission in batch {
            waiting.push((submission.items.len(), submission.answer, submission._room));
            items.extend(submission.items);
        }

        let begun = Instant::now();
        let outcome = self.append(&items).await;
        metrics::histogram!("millstream_append_seconds").record(begun.elapsed().as_secs_f64());
        #[expect(clippy::cast_precision_loss, reason = "a histogram takes doubles")]
        metrics::histogram!("millstream_append_batch_size").record(items.len() as f64);

        let mut verdicts = outcome.verdicts.into_iter();
        let bells: Vec<Bell> = items.iter().zip(verdicts.as_slice()).filter_map(bell).collect();
        let rings = !bells.is_empty();
        if rings {
            crash::point(self.crash, CrashPoint::IngressBeforeRing);
        }
        self.ring.ring(bells);
        if rings {
            // The bells are on their way before the answers: a worker has more to do than a client.
            tokio::task::yield_now().await;
            crash::point(self.crash, CrashPoint::IngressBeforeAnswer);
        }

        for (count, answer, _room) in waiting {
            let part: Option<Vec<Verdict>> = verdicts.by_ref().take(count).collect();
            // An error means that the client has gone; its events are durable and rung all the same.
            let _ = answer.send(part.ok_or(AcceptError::Unavailable));
        }
    }

    /// One verdict per item; `None` for those whose append failed or is in doubt.
    async fn append(&self, items: &[Append]) -> Outcome {
        let mut verdicts = Vec::with_capacity(items.len());
        // Halves still to be appended, the leftmost on top, so that verdicts come in order.
        let mut parts = vec![items];
        while let Some(part) = parts.pop() {
            let appended = self.append_with_patience(part).await;
            self.writes.note(appended.as_deref());
            match appended {
                Ok(appended) if appended.len() == part.len() => {
                    verdicts.extend(appended.into_iter().map(|verdict| Some(Verdict::Stored(verdict))));
                }
                Ok(appended) => {
                    tracing::error!(
                        items = part.len(),
                        verdicts = appended.len(),
                        "the store broke its contract"
                    );
                    verdicts.extend(part.iter().map(|_| None));
                }
                Err(StoreError::Corrupt(reason)) if part.len() == 1 => {
                    tracing::error!(%reason, "the store refuses an item");
                    verdicts.push(Some(Verdict::Refused));
                }
                Err(StoreError::Corrupt(_)) => {
                    let (left, right) = part.split_at(part.len() / 2);
                    parts.push(right);
                    parts.push(left);
                }
                Err(error @ (StoreError::Unavailable(_) | StoreError::Contention(_))) => {
                    tracing::warn!(%error, items = part.len(), "a batch could not be appended");
                    metrics::counter!("millstream_append_failures_total", "reason" => "unavailable")
                        .increment(1);
                    verdicts.extend(part.iter().map(|_| None));
                }
            }
        }
        Outcome { verdicts }
    }

    /// Contention wrote nothing: again, at once and then a little later each time.
    async fn append_with_patience(&self, items: &[Append]) -> Result<Vec<Appended>, StoreError> {
        let mut tries = 0;
        loop {
            match self.log.append(items, self.clock.now()).await {
                Err(StoreError::Contention(_)) if tries < CONTENTION_TRIES => {
                    metrics::counter!("millstream_append_failures_total", "reason" => "contention")
                        .increment(1);
                    tokio::time::sleep(Duration::from_millis(u64::from(tries.min(10)) * 5)).await;
                    tries += 1;
                }
                settled => return settled,
            }
        }
    }
}

struct Outcome {
    verdicts: Vec<Option<Verdict>>,
}

/// The bell that an accepted item calls for. A repeat that is still undecided rings again: its first
/// answer may have been lost together with its bell.
fn bell((item, verdict): (&Append, &Option<Verdict>)) -> Option<Bell> {
    let stored = match verdict {
        Some(Verdict::Stored(stored)) => stored,
        Some(Verdict::Refused) | None => return None,
    };
    let execution: &ExecutionKey = match (item, stored) {
        (Append::Event(event), Appended::Accepted { .. }) => &event.execution,
        (Append::Event(event), Appended::Repeat { status: EventStatus::Pending, .. }) => &event.execution,
        // Its status says nothing about the events that came with it, and signals that waited for its
        // correlation are in its mailbox now.
        (Append::Start(start), Appended::Accepted { .. } | Appended::Repeat { .. })
            if !start.events.is_empty() || start.state.correlation.is_some() =>
        {
            &start.key
        }
        (_, Appended::Delivered { execution, .. }) => execution,
        (
            Append::Event(_) | Append::Start(_) | Append::Signal(_),
            Appended::Accepted { .. }
            | Appended::Repeat { .. }
            | Appended::Buffered
            | Appended::Ambiguous { .. }
            | Appended::Mismatch
            | Appended::NoExecution,
        ) => return None,
    };
    Some(Bell::Mailbox(execution.clone()))
}
