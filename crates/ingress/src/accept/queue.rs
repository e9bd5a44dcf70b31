//! Which submissions go into the next commit: fair queueing over tenants. Pure.
//!
//! Tenants take turns ([`millstream_model::fair`]), and a submission costs as many units of service as it
//! has items. While one tenant alone waits, a commit takes as much as its cap allows, which is fastest.
//! While several wait, a commit stays within [`SHARED`], so that no tenant waits long for the bulk of
//! another; a larger submission gets a commit of its own.
//!
//! While a commit beyond [`SHARED`] is in flight, an *express* commit may begin beside it for small
//! submissions of tenants that have nothing in flight: those tenants do not wait for bulk.
//!
//! Order: a submission is in one commit, its items in order. Submissions of one tenant leave in the order
//! of their arrival.

use millstream_model::fair::{FairQueue, TenantWeights};
use millstream_model::id::TenantId;

/// Items and bytes of a submission.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct SubmissionSize {
    pub(super) items: usize,
    pub(super) bytes: usize,
}

impl SubmissionSize {
    fn plus(self, other: Self) -> Self {
        Self { items: self.items + other.items, bytes: self.bytes.saturating_add(other.bytes) }
    }

    fn fits_within(self, cap: Self) -> bool {
        self.items <= cap.items && self.bytes <= cap.bytes
    }

    fn smaller_of(self, other: Self) -> Self {
        Self { items: self.items.min(other.items), bytes: self.bytes.min(other.bytes) }
    }
}

/// Cap of a commit while several tenants wait: small enough to delay none of them.
const SHARED: SubmissionSize = SubmissionSize { items: 256, bytes: 2 * 1024 * 1024 };
/// Cap of an express commit.
const EXPRESS: SubmissionSize = SubmissionSize { items: 64, bytes: 512 * 1024 };

/// The submissions of one commit.
#[derive(Debug)]
pub(super) struct CommitBatch<T> {
    pub(super) submissions: Vec<T>,
    pub(super) size: SubmissionSize,
    /// Without duplicates.
    pub(super) tenants: Vec<TenantId>,
}

impl<T> CommitBatch<T> {
    /// Whether the commit is so large that an express commit may pass it.
    pub(super) fn is_bulk(&self) -> bool {
        !self.size.fits_within(SHARED)
    }

    fn new() -> Self {
        Self { submissions: Vec::new(), size: SubmissionSize::default(), tenants: Vec::new() }
    }

    fn add_submission(
        &mut self,
        tenant: TenantId,
        WaitingSubmission { size, submission }: WaitingSubmission<T>,
    ) {
        self.size = self.size.plus(size);
        self.submissions.push(submission);
        if self.tenants.last() != Some(&tenant) && !self.tenants.contains(&tenant) {
            self.tenants.push(tenant);
        }
    }
}

#[derive(Debug)]
struct WaitingSubmission<T> {
    size: SubmissionSize,
    submission: T,
}

/// Submissions that are in no commit yet. [`super::shares`] bounds them.
#[derive(Debug)]
pub(super) struct CommitQueue<T> {
    waiting: FairQueue<WaitingSubmission<T>>,
    items: usize,
}

impl<T> CommitQueue<T> {
    pub(super) fn with_weights(weights: TenantWeights) -> Self {
        Self { waiting: FairQueue::with_weights(weights), items: 0 }
    }

    pub(super) fn push_submission(&mut self, tenant: &TenantId, size: SubmissionSize, submission: T) {
        self.items += size.items;
        self.waiting.push(tenant, WaitingSubmission { size, submission });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Items of all submissions.
    pub(super) fn item_count(&self) -> usize {
        self.items
    }

    /// The next commit: at most `cap`, but at least one submission. `None` when nothing waits.
    pub(super) fn take_batch(&mut self, cap: SubmissionSize) -> Option<CommitBatch<T>> {
        let cap = if self.waiting.tenant_count() > 1 { cap.smaller_of(SHARED) } else { cap };
        let mut batch = CommitBatch::new();
        if !self.take_one(&mut batch, |_, _| true) {
            return None;
        }
        self.fill_batch(&mut batch, cap, |_| true);
        Some(batch)
    }

    /// An express commit: small submissions of tenants for which `passes` holds.
    pub(super) fn take_express(&mut self, passes: impl Fn(&TenantId) -> bool) -> Option<CommitBatch<T>> {
        let mut batch = CommitBatch::new();
        self.fill_batch(&mut batch, EXPRESS, passes);
        (!batch.submissions.is_empty()).then_some(batch)
    }

    fn fill_batch(
        &mut self,
        batch: &mut CommitBatch<T>,
        cap: SubmissionSize,
        passes: impl Fn(&TenantId) -> bool,
    ) {
        let mut full = false;
        while !full {
            let size = batch.size;
            full = !self.take_one(batch, |tenant, next| size.plus(next).fits_within(cap) && passes(tenant));
        }
    }

    fn take_one(
        &mut self,
        batch: &mut CommitBatch<T>,
        passes: impl Fn(&TenantId, SubmissionSize) -> bool,
    ) -> bool {
        let passes = |tenant: &TenantId, waiting: &WaitingSubmission<T>| passes(tenant, waiting.size);
        let cost = |waiting: &WaitingSubmission<T>| waiting.size.items as u64;
        let Some((tenant, next)) = self.waiting.pop_costing(passes, cost) else { return false };
        self.items -= next.size.items;
        batch.add_submission(tenant, next);
        true
    }
}

#[cfg(test)]
#[path = "queue/tests.rs"]
mod tests;
