//! Commit of a batch: appends it, rings the doorbells, answers the submissions.
//!
//! The commit belongs to this task and not to a request: a client that disconnects cancels nothing, and
//! doorbells are rung for everything committed.
//!
//! Failures: `Contention` wrote nothing, and the batch is retried. `Corrupt` means that one item poisons
//! the rest: the batch is bisected until that item is alone. `Unavailable` leaves the outcome in doubt:
//! every submission of the batch is answered with 503 and none with 202; if the commit did succeed, the
//! client's repeat by idempotency key finds the event and rings, or the overdue sweep does.

use std::sync::Arc;
use std::time::Duration;

use millstream_model::crash::CrashPoint;
use millstream_model::id::ExecutionKey;
use millstream_model::status::EventStatus;
use millstream_store::StoreError;
use millstream_store::clock::Clock;
use millstream_store::event_log::{AppendRequest, Appended, EventLog};
use millstream_stream::doorbell::Doorbell;
use tokio::time::Instant;

use super::{AcceptError, AppendVerdict, QueuedSubmission};
use crate::crash;
use crate::ring::DoorbellRinger;
use crate::write_evidence::WriteEvidence;

/// Retries of a batch on contention, before its callers get an error.
const CONTENTION_TRIES: u32 = 20;

pub(super) struct BatchCommitter {
    pub(super) log: Arc<dyn EventLog>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) ring: DoorbellRinger,
    pub(super) writes: WriteEvidence,
    pub(super) crash: Option<CrashPoint>,
}

impl BatchCommitter {
    pub(super) async fn commit_batch(&self, batch: Vec<QueuedSubmission>) {
        let mut items = Vec::with_capacity(batch.iter().map(|submission| submission.items.len()).sum());
        let mut waiting = Vec::with_capacity(batch.len());
        for submission in batch {
            waiting.push((submission.items.len(), submission.answer, submission.room));
            items.extend(submission.items);
        }

        let begun = Instant::now();
        let outcome = self.append_bisecting(&items).await;
        metrics::histogram!("millstream_append_seconds").record(begun.elapsed().as_secs_f64());
        #[expect(clippy::cast_precision_loss, reason = "a histogram takes doubles")]
        metrics::histogram!("millstream_append_batch_size").record(items.len() as f64);

        let mut verdicts = outcome.verdicts.into_iter();
        let bells: Vec<Doorbell> =
            items.iter().zip(verdicts.as_slice()).filter_map(bell_of_verdict).collect();
        let rings = !bells.is_empty();
        if rings {
            crash::crash_at(self.crash, CrashPoint::IngressBeforeRing);
        }
        self.ring.ring_later(bells);
        if rings {
            // Ring before answering: the worker's part of the request takes longer than the client's.
            tokio::task::yield_now().await;
            crash::crash_at(self.crash, CrashPoint::IngressBeforeAnswer);
        }

        for (count, answer, room) in waiting {
            let part: Option<Vec<AppendVerdict>> = verdicts.by_ref().take(count).collect();
            // Free the queue room before the answer: a client that submits its next request at once finds
            // it free.
            drop(room);
            // An error means that the client has disconnected; its events are durable and rung all the
            // same.
            let _ = answer.send(part.ok_or(AcceptError::Unavailable));
        }
    }

    /// One verdict per item; `None` for those whose append failed or is in doubt.
    async fn append_bisecting(&self, items: &[AppendRequest]) -> AppendOutcome {
        let mut verdicts = Vec::with_capacity(items.len());
        // Halves still to be appended, the leftmost on top, so that verdicts keep the order of the items.
        let mut parts = vec![items];
        while let Some(part) = parts.pop() {
            let appended = self.append_with_retries(part).await;
            self.writes.record_append(appended.as_deref());
            match appended {
                Ok(appended) if appended.len() == part.len() => {
                    verdicts.extend(appended.into_iter().map(|verdict| Some(AppendVerdict::Stored(verdict))));
                }
                Ok(appended) => {
                    tracing::error!(
                        items = part.len(),
                        verdicts = appended.len(),
                        "the store returned a wrong number of verdicts"
                    );
                    verdicts.extend(part.iter().map(|_| None));
                }
                Err(StoreError::Corrupt(reason)) if part.len() == 1 => {
                    tracing::error!(%reason, "the store cannot store an item");
                    verdicts.push(Some(AppendVerdict::Refused));
                }
                Err(StoreError::Corrupt(_)) => {
                    let (left, right) = part.split_at(part.len() / 2);
                    parts.push(right);
                    parts.push(left);
                }
                Err(error @ (StoreError::Unavailable(_) | StoreError::Contention(_))) => {
                    tracing::warn!(%error, items = part.len(), "appending a batch failed");
                    metrics::counter!("millstream_append_failures_total", "reason" => "unavailable")
                        .increment(1);
                    verdicts.extend(part.iter().map(|_| None));
                }
            }
        }
        AppendOutcome { verdicts }
    }

    /// Retries on contention, which wrote nothing: at once, then after growing pauses.
    async fn append_with_retries(&self, items: &[AppendRequest]) -> Result<Vec<Appended>, StoreError> {
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

struct AppendOutcome {
    verdicts: Vec<Option<AppendVerdict>>,
}

/// The doorbell for an accepted item. A repeat that is still undecided rings again: the first answer may
/// have been lost together with its doorbell.
fn bell_of_verdict((item, verdict): (&AppendRequest, &Option<AppendVerdict>)) -> Option<Doorbell> {
    let stored = match verdict {
        Some(AppendVerdict::Stored(stored)) => stored,
        Some(AppendVerdict::Refused) | None => return None,
    };
    let execution: &ExecutionKey = match (item, stored) {
        (AppendRequest::Event(event), Appended::Accepted { .. }) => &event.execution,
        (AppendRequest::Event(event), Appended::Repeat { status: EventStatus::Pending, .. }) => {
            &event.execution
        }
        // The status of the start event does not cover the events appended with it, nor the signals that
        // were buffered for its correlation and are in its mailbox now.
        (AppendRequest::Start(start), Appended::Accepted { .. } | Appended::Repeat { .. })
            if !start.events.is_empty() || start.state.correlation.is_some() =>
        {
            &start.key
        }
        (_, Appended::Delivered { execution, .. }) => execution,
        (
            AppendRequest::Event(_) | AppendRequest::Start(_) | AppendRequest::Signal(_),
            Appended::Accepted { .. }
            | Appended::Repeat { .. }
            | Appended::Buffered
            | Appended::Ambiguous { .. }
            | Appended::Mismatch
            | Appended::NoExecution,
        ) => return None,
    };
    Some(Doorbell::Mailbox(execution.clone()))
}
