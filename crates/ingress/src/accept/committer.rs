//! The commit of a batch: append it, ring for it, answer its submissions.
//!
//! The commit belongs to this task and not to a request: a client that goes away cancels nothing, and what was committed
//! is rung.
//!
//! When things fail: `Contention` wrote nothing and the batch is tried again. `Corrupt` means that one item poisons the
//! rest: the batch is halved until that item is alone. `Unavailable` leaves the outcome in doubt: every submission of
//! the batch is answered so (503) and none with 202; if it did commit, the client's repeat by key finds it and rings, or
//! the overdue sweep does.

use std::sync::Arc;
use std::time::Duration;

use millstream_core::crash::CrashPoint;
use millstream_core::id::ExecutionKey;
use millstream_core::status::EventStatus;
use millstream_store::StoreError;
use millstream_store::clock::Clock;
use millstream_store::event_log::{Append, Appended, EventLog};
use millstream_stream::doorbell::Bell;
use tokio::time::Instant;

use super::{AcceptError, Submission, Verdict};
use crate::crash;
use crate::ring::Ring;
use crate::write_evidence::WriteEvidence;

/// How often a batch that met contention is tried before its callers are told to come back.
const CONTENTION_TRIES: u32 = 20;

pub(super) struct Committer {
    pub(super) log: Arc<dyn EventLog>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) ring: Ring,
    pub(super) writes: WriteEvidence,
    pub(super) crash: Option<CrashPoint>,
}

impl Committer {
    pub(super) async fn commit(&self, batch: Vec<Submission>) {
        let mut items = Vec::with_capacity(batch.iter().map(|submission| submission.items.len()).sum());
        let mut waiting = Vec::with_capacity(batch.len());
        for submission in batch {
            waiting.push((submission.items.len(), submission.answer, submission.room));
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

        for (count, answer, room) in waiting {
            let part: Option<Vec<Verdict>> = verdicts.by_ref().take(count).collect();
            // Before the answer: a client that comes again at once finds the room that it gave back.
            drop(room);
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
