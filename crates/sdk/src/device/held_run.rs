//! A run held by the device: shared by the task that performs it and the loop that sends its heartbeats.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, watch};

use crate::client::{RunAssignment, RunProgress};

/// The server's view of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct HeldRunStatus {
    pub(super) lost: bool,
    pub(super) paused: bool,
}

#[derive(Debug)]
pub(super) struct HeldRun {
    pub(super) of: RunAssignment,
    claim: watch::Sender<HeldRunStatus>,
    /// The newest progress, until it is reported.
    progress: Mutex<Option<RunProgress>>,
    /// Wakes the loop when there is progress to report.
    news: Arc<Notify>,
}

impl HeldRun {
    pub(super) fn new(of: RunAssignment, news: Arc<Notify>) -> Self {
        let claim = watch::channel(HeldRunStatus { lost: false, paused: of.paused }).0;
        Self { of, claim, progress: Mutex::new(None), news }
    }

    pub(super) fn current_status(&self) -> HeldRunStatus {
        *self.claim.borrow()
    }

    /// A loss is final.
    pub(super) fn update_status(&self, heard: HeldRunStatus) {
        self.claim.send_if_modified(|claim| {
            let next = HeldRunStatus { lost: claim.lost || heard.lost, paused: heard.paused };
            std::mem::replace(claim, next) != next
        });
    }

    pub(super) async fn wait_for_status(&self, is_so: impl FnMut(&HeldRunStatus) -> bool) {
        let mut claim = self.claim.subscribe();
        // The sender lives as long as `self`.
        let _ = claim.wait_for(is_so).await;
    }

    pub(super) fn set_progress(&self, progress: RunProgress) {
        *self.lock_progress() = Some(progress);
        self.news.notify_one();
    }

    pub(super) fn has_progress(&self) -> bool {
        self.lock_progress().is_some()
    }

    pub(super) fn take_progress(&self) -> Option<RunProgress> {
        self.lock_progress().take()
    }

    /// The report failed: the progress waits for the next one, unless newer progress exists by now.
    pub(super) fn put_back(&self, progress: Option<RunProgress>) {
        let mut slot = self.lock_progress();
        if slot.is_none() {
            *slot = progress;
        }
    }

    fn lock_progress(&self) -> std::sync::MutexGuard<'_, Option<RunProgress>> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
