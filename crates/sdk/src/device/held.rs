//! A run that the device has: shared by whoever does it and the loop that keeps it alive.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, watch};

use crate::client::{RunAssignment, RunProgress};

/// What the server says of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) lost: bool,
    pub(super) paused: bool,
}

#[derive(Debug)]
pub(super) struct Held {
    pub(super) of: RunAssignment,
    claim: watch::Sender<Claim>,
    /// The newest, until it was told.
    progress: Mutex<Option<RunProgress>>,
    /// Rings when there is something to tell.
    news: Arc<Notify>,
}

impl Held {
    pub(super) fn new(of: RunAssignment, news: Arc<Notify>) -> Self {
        let claim = watch::channel(Claim { lost: false, paused: of.paused }).0;
        Self { of, claim, progress: Mutex::new(None), news }
    }

    pub(super) fn claim(&self) -> Claim {
        *self.claim.borrow()
    }

    /// A loss is for good.
    pub(super) fn hear(&self, heard: Claim) {
        self.claim.send_if_modified(|claim| {
            let next = Claim { lost: claim.lost || heard.lost, paused: heard.paused };
            std::mem::replace(claim, next) != next
        });
    }

    pub(super) async fn until(&self, is_so: impl FnMut(&Claim) -> bool) {
        let mut claim = self.claim.subscribe();
        // The sender lives as long as `self`.
        let _ = claim.wait_for(is_so).await;
    }

    pub(super) fn tell(&self, progress: RunProgress) {
        *self.slot() = Some(progress);
        self.news.notify_one();
    }

    pub(super) fn has_progress(&self) -> bool {
        self.slot().is_some()
    }

    pub(super) fn take_progress(&self) -> Option<RunProgress> {
        self.slot().take()
    }

    /// It could not be told: unless there is newer by now, it waits for the next time.
    pub(super) fn put_back(&self, progress: Option<RunProgress>) {
        let mut slot = self.slot();
        if slot.is_none() {
            *slot = progress;
        }
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<RunProgress>> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
