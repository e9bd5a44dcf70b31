//! Context of a run: its identity, progress, loss and pause.

use std::sync::Arc;

use super::held_run::HeldRun;
use crate::client::RunProgress;

/// Context of one run, for the function that performs it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RunContext(pub(super) Arc<HeldRun>);

impl RunContext {
    pub fn run_id(&self) -> &str {
        &self.0.of.run_id
    }

    pub fn kind(&self) -> &str {
        &self.0.of.kind
    }

    /// Index of its seat, from 0.
    pub fn seat(&self) -> u16 {
        self.0.of.seat
    }

    /// The fencing token: grows with every assignment of the run. A downstream service that remembers the
    /// highest token can refuse a late request of a device that has lost the run.
    pub fn token(&self) -> i64 {
        self.0.of.token
    }

    /// Progress of the previous device.
    pub fn last_progress(&self) -> Option<&RunProgress> {
        self.0.of.progress.as_ref()
    }

    /// Reports progress, with the next heartbeat, which follows soon. The next device continues from there.
    pub fn progress(&self, step: u64, total: u64) {
        self.0.set_progress(RunProgress { step, total, note: None });
    }

    /// The same with a note of at most 4 KiB.
    pub fn progress_with(&self, step: u64, total: u64, note: impl Into<String>) {
        self.0.set_progress(RunProgress { step, total, note: Some(note.into()) });
    }

    /// Whether this device has lost the run: it was cancelled, preempted by more important work, or the
    /// device's heartbeat was missing for too long. Further work is wasted.
    pub fn is_lost(&self) -> bool {
        self.0.current_status().lost
    }

    /// Resolves when the run is lost. A function that ignores it runs on to its end, and its outcome is
    /// dropped.
    pub async fn lost(&self) {
        self.0.wait_for_status(|claim| claim.lost).await;
    }

    /// Whether an operator has paused the run. It stays with this device: stop if possible, and continue when
    /// it is resumed.
    pub fn is_paused(&self) -> bool {
        self.0.current_status().paused
    }

    /// Resolves when the run is not paused, or is lost.
    pub async fn unpaused(&self) {
        self.0.wait_for_status(|claim| claim.lost || !claim.paused).await;
    }
}
