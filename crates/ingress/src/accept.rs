//! Accepting events: group commit, many requests in one transaction.
//!
//! ```text
//! handler ─ submit_batch ─→ shares ─→ queue ─→ dispatch_commits ─ append(batch) ─→ store
//!    ↑             (or refused)  (by tenant)  │ after the commit
//!    └────────────── verdicts ←───────────────┴──→ ring
//! ```
//!
//! Reading order: `shares` (queue limits, in total and per tenant), `queue` (fair queueing: which
//! submissions the next commit takes), `dispatch` (when a commit begins), `committer` (the commit, its
//! doorbells, its verdicts, and its failures).
//!
//! Backpressure: a full queue refuses before memory grows, and a tenant that has used its share is refused
//! before the queue is full.

mod committer;
mod dispatch;
mod queue;
mod shares;

use std::sync::Arc;
use std::time::Duration;

use millstream_model::id::TenantId;
use millstream_store::clock::Clock;
use millstream_store::event_log::{AppendRequest, Appended, EventLog, EventSubmission};
use millstream_store::graph_store::GraphRows;
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;

use self::committer::BatchCommitter;
use self::dispatch::{CommitRules, dispatch_commits};
use self::queue::SubmissionSize;
use self::shares::{QueueRoom, QueueUse, SharedQueueShares};
use crate::options::IngressOptions;
use crate::refusal::{RefusalKind, RequestRefusal};
use crate::ring::DoorbellRinger;
use crate::write_evidence::WriteEvidence;

/// The verdict on one item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AppendVerdict {
    /// The store's answer.
    Stored(Appended),
    /// The store cannot store this item, in any batch.
    Refused,
}

/// Why a whole submission failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AcceptError {
    #[error("the queue is full")]
    QueueFull,
    #[error("the tenant has used its share of the queue")]
    TenantQueueFull,
    #[error("the store is unavailable")]
    Unavailable,
    #[error("the commit did not finish in time")]
    InDoubt,
    #[error("shutting down")]
    Closed,
}

impl From<AcceptError> for RequestRefusal {
    fn from(error: AcceptError) -> Self {
        match error {
            AcceptError::QueueFull => {
                Self::new(RefusalKind::Busy, "too many events are waiting for a commit")
            }
            AcceptError::TenantQueueFull => Self::new(
                RefusalKind::Busy,
                "too many events of this tenant are waiting for a commit: it has three quarters of the queue",
            ),
            AcceptError::Unavailable => Self::new(
                RefusalKind::StoreUnavailable,
                "the store cannot be reached; repeat the request with the same Idempotency-Key",
            ),
            AcceptError::InDoubt => Self::new(
                RefusalKind::StoreUnavailable,
                "the store did not answer in time; repeat the request with the same Idempotency-Key",
            ),
            AcceptError::Closed => Self::new(RefusalKind::Draining, "this process is shutting down"),
        }
    }
}

/// The entry of the commit queue.
#[derive(Debug, Clone)]
pub(crate) struct EventAcceptor {
    queue: mpsc::Sender<QueuedSubmission>,
    shares: SharedQueueShares,
    patience: Duration,
    /// Outcomes of the last commits.
    pub(crate) writes: WriteEvidence,
}

#[derive(Debug)]
struct QueuedSubmission {
    items: Vec<AppendRequest>,
    size: SubmissionSize,
    room: QueueRoom,
    answer: oneshot::Sender<Result<Vec<AppendVerdict>, AcceptError>>,
}

impl EventAcceptor {
    /// Starts the dispatcher; it ends when every handle is gone and the queue is empty.
    pub(crate) fn start_dispatcher(
        log: Arc<dyn EventLog>,
        clock: Arc<dyn Clock>,
        ring: DoorbellRinger,
        options: &IngressOptions,
        tasks: &TaskTracker,
    ) -> Self {
        let limits = &options.limits;
        let most = QueueUse { submissions: limits.queue_items.max(1), bytes: limits.queue_bytes };
        // The shares bound the submissions on their way to the dispatcher.
        let (queue, arrivals) = mpsc::channel(most.submissions);
        let writes = WriteEvidence::default();
        let committer = BatchCommitter { log, clock, ring, writes: writes.clone(), crash: options.crash };
        let rules = CommitRules {
            cap: SubmissionSize { items: limits.batch_items, bytes: limits.batch_bytes },
            appenders: options.appenders.clamp(1, 4),
            weights: options.weights.clone(),
        };
        tasks.spawn(dispatch_commits(arrivals, Arc::new(committer), rules, tasks.clone()));
        Self { queue, shares: SharedQueueShares::with_limit(most), patience: options.commit_timeout, writes }
    }

    /// One verdict per item, in order, after the commit that holds them. All items are of one tenant.
    pub(crate) async fn submit_batch(
        &self,
        items: Vec<AppendRequest>,
    ) -> Result<Vec<AppendVerdict>, AcceptError> {
        let Some(tenant) = items.first().map(tenant_of).cloned() else { return Ok(Vec::new()) };
        let size = SubmissionSize { items: items.len(), bytes: items.iter().map(bytes_of).sum() };
        let room = self.shares.take_room(tenant, size.bytes)?;
        let (answer, verdicts) = oneshot::channel();
        self.queue.try_send(QueuedSubmission { items, size, room, answer }).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => AcceptError::QueueFull,
            mpsc::error::TrySendError::Closed(_) => AcceptError::Closed,
        })?;
        metrics::gauge!("millstream_append_queue_depth").increment(1.0);
        match tokio::time::timeout(self.patience, verdicts).await {
            Ok(Ok(verdicts)) => verdicts,
            Ok(Err(_)) => Err(AcceptError::InDoubt),
            Err(_) => Err(AcceptError::InDoubt),
        }
    }
}

fn tenant_of(item: &AppendRequest) -> &TenantId {
    match item {
        AppendRequest::Event(event) => &event.execution.tenant,
        AppendRequest::Signal(signal) => &signal.tenant,
        AppendRequest::Start(start) => &start.key.tenant,
    }
}

/// Estimated size of an item: its payloads and a constant per row.
fn bytes_of(item: &AppendRequest) -> usize {
    let event = |event: &EventSubmission| event.payload.len() + 512;
    match item {
        AppendRequest::Event(new) => event(new),
        AppendRequest::Signal(signal) => signal.payload.len() + 512,
        AppendRequest::Start(start) => {
            let graph = start.graph.as_deref().map_or(0, graph_bytes);
            let events = start.events.iter().map(event).sum::<usize>();
            event(&start.start) + start.state.context_bytes() + events + graph
        }
    }
}

/// A graph is stored three times: in the log, in its blob and in the rows of its nodes.
fn graph_bytes(rows: &GraphRows) -> usize {
    rows.blob.as_ref().map_or(0, |blob| blob.len()) * 3 + rows.nodes.len() * 64
}
