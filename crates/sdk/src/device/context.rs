//! What a run knows, and what can be said while it is worked on.

use std::sync::Arc;

use super::held::Held;
use crate::client::RunProgress;

/// One run, as the function sees it that does it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RunContext(pub(super) Arc<Held>);

impl RunContext {
    pub fn run_id(&self) -> &str {
        &self.0.of.run_id
    }

    pub fn kind(&self) -> &str {
        &self.0.of.kind
    }

    /// Which seat of it, counted from 0.
    pub fn seat(&self) -> u16 {
        self.0.of.seat
    }

    /// The fencing token: grows with every assignment of the run. Another side that remembers the highest it has seen
    /// can refuse what comes late from a device that has lost the run.
    pub fn token(&self) -> i64 {
        self.0.of.token
    }

    /// How far whoever had it before has come.
    pub fn last_progress(&self) -> Option<&RunProgress> {
        self.0.of.progress.as_ref()
    }

    /// Says how far it is, with the next heartbeat, which comes soon. Whoever has it next goes on from there.
    pub fn progress(&self, step: u64, total: u64) {
        self.0.tell(RunProgress { step, total, note: None });
    }

    /// The same in words, at most 4 KiB of them.
    pub fn progress_with(&self, step: u64, total: u64, note: impl Into<String>) {
        self.0.tell(RunProgress { step, total, note: Some(note.into()) });
    }

    /// Whether the run is not this device's any more: it was cancelled, taken for something more important, or the
    /// server has not heard of the device for too long. What is done from now on nobody wants.
    pub fn is_lost(&self) -> bool {
        self.0.claim().lost
    }

    /// Resolves when the run is lost. A function that does not listen runs on to its end, and its outcome is dropped.
    pub async fn lost(&self) {
        self.0.until(|claim| claim.lost).await;
    }

    /// Whether somebody has paused the run. It stays this device's: stop if you can, and go on when it is resumed.
    pub fn is_paused(&self) -> bool {
        self.0.claim().paused
    }

    /// Resolves when the run is not paused, or lost.
    pub async fn unpaused(&self) {
        self.0.until(|claim| claim.lost || !claim.paused).await;
    }
}
