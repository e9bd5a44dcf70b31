//! The dispatcher: when a commit begins, and which commits are in flight.
//!
//! Batching by natural back-to-back commits: submissions that arrived during the last commit form the next
//! one, and a single event never waits for more. A second commit begins in parallel when it is as large as
//! the first ([`millstream_model::batch_pacing`]). Beside a bulk commit, one express commit may begin for tenants
//! that have nothing in flight ([`super::queue`]).

use std::sync::Arc;

use millstream_model::batch_pacing::{BatchPacing, InFlightBatch, decide_batch_start};
use millstream_model::fair::TenantWeights;
use millstream_model::id::TenantId;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::QueuedSubmission;
use super::committer::BatchCommitter;
use super::queue::{CommitBatch, CommitQueue, SubmissionSize};

/// How the dispatcher forms commits.
#[derive(Debug)]
pub(super) struct CommitRules {
    /// Upper bound of one commit.
    pub(super) cap: SubmissionSize,
    /// Commits in flight at once, besides the express one.
    pub(super) appenders: usize,
    pub(super) weights: TenantWeights,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CommitLane {
    Regular,
    Express,
}

/// A commit in flight.
#[derive(Debug)]
struct CommitInFlight {
    id: u64,
    lane: CommitLane,
    items: usize,
    is_bulk: bool,
    tenants: Vec<TenantId>,
    begun: Instant,
}

/// Reports the end of a commit when dropped, whatever its outcome.
#[derive(Debug)]
struct CommitEndNotice {
    id: u64,
    land: mpsc::Sender<u64>,
}

impl Drop for CommitEndNotice {
    fn drop(&mut self) {
        let _ = self.land.try_send(self.id);
    }
}

/// The commits in flight.
struct CommitsInFlight {
    under_way: Vec<CommitInFlight>,
    next_id: u64,
    committer: Arc<BatchCommitter>,
    land: mpsc::Sender<u64>,
    tasks: TaskTracker,
}

impl CommitsInFlight {
    fn regular_commits(&self) -> impl Iterator<Item = &CommitInFlight> {
        self.under_way.iter().filter(|flight| flight.lane == CommitLane::Regular)
    }

    /// Whether an express commit may begin.
    fn express_may_begin(&self) -> bool {
        self.regular_commits().any(|flight| flight.is_bulk)
            && self.regular_commits().count() == self.under_way.len()
    }

    fn begin_commit(&mut self, lane: CommitLane, batch: CommitBatch<QueuedSubmission>) {
        #[expect(clippy::cast_precision_loss, reason = "a gauge is a double")]
        metrics::gauge!("millstream_append_queue_depth").decrement(batch.submissions.len() as f64);
        let (items, is_bulk) = (batch.size.items, batch.is_bulk());
        let CommitBatch { submissions, tenants, .. } = batch;
        self.next_id += 1;
        let id = self.next_id;
        self.under_way.push(CommitInFlight { id, lane, items, is_bulk, tenants, begun: Instant::now() });
        let (committer, landing) = (self.committer.clone(), CommitEndNotice { id, land: self.land.clone() });
        self.tasks.spawn(async move {
            committer.commit_batch(submissions).await;
            drop(landing);
        });
    }
}

pub(super) async fn dispatch_commits(
    mut arrivals: mpsc::Receiver<QueuedSubmission>,
    committer: Arc<BatchCommitter>,
    rules: CommitRules,
    tasks: TaskTracker,
) {
    let CommitRules { cap, appenders, weights } = rules;
    let mut queue = CommitQueue::with_weights(weights);
    // Capacity for every commit that can be in flight: `CommitEndNotice` never waits to report.
    let (land, mut landed) = mpsc::channel(appenders + 1);
    let mut flights = CommitsInFlight { under_way: Vec::new(), next_id: 0, committer, land, tasks };
    let mut closed = false;
    loop {
        let mut hold = None;
        while !queue.is_empty() && flights.regular_commits().count() < appenders {
            let under_way =
                |flight: &CommitInFlight| InFlightBatch { items: flight.items, age: flight.begun.elapsed() };
            if let BatchPacing::Wait(longest) = decide_batch_start(
                queue.item_count().min(cap.items),
                flights.regular_commits().map(under_way),
            ) {
                hold = Some(longest);
                break;
            }
            let Some(batch) = queue.take_batch(cap) else { break };
            flights.begin_commit(CommitLane::Regular, batch);
        }
        if !queue.is_empty() && flights.express_may_begin() {
            let has_none =
                |tenant: &TenantId| flights.under_way.iter().all(|flight| !flight.tenants.contains(tenant));
            if let Some(batch) = queue.take_express(has_none) {
                flights.begin_commit(CommitLane::Express, batch);
            }
        }
        if closed && queue.is_empty() {
            return;
        }
        tokio::select! {
            // All submissions that have arrived join the next commit: larger commits are fewer commits. The
            // shares bound them.
            biased;
            arrival = arrivals.recv(), if !closed => match arrival {
                Some(first) => {
                    enqueue_submission(&mut queue, first);
                    while let Ok(next) = arrivals.try_recv() {
                        enqueue_submission(&mut queue, next);
                    }
                }
                None => closed = true,
            },
            Some(id) = landed.recv(), if !flights.under_way.is_empty() => {
                flights.under_way.retain(|flight| flight.id != id);
            }
            () = tokio::time::sleep(hold.unwrap_or_default()), if hold.is_some() => {}
        }
    }
}

fn enqueue_submission(queue: &mut CommitQueue<QueuedSubmission>, submission: QueuedSubmission) {
    let tenant = submission.room.tenant.clone();
    queue.push_submission(&tenant, submission.size, submission);
}
