//! The interface to actions implemented by a user's own worker: the input of an attempt, and its heartbeats.
//!
//! The engine sees a name, JSON in and an [`Attempt`] out. It decides about leases, retries and time; an
//! implementation of [`PerformCalls`] only does the work.

use std::sync::Arc;

use millstream_core::action::Attempt;
use millstream_core::id::{ActionKey, Name};
use millstream_core::raw::RawJson;
use millstream_core::sealed::Filled;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Performs the actions implemented by a user's own worker.
#[async_trait::async_trait]
pub trait PerformCalls: Send + Sync + std::fmt::Debug {
    /// The names that definitions use in `call: NAME`, sorted.
    fn names(&self) -> Vec<Name>;

    /// Performs one attempt. The future may be dropped at any await: the lease was lost or the deadline has
    /// passed.
    async fn perform(&self, call: Call) -> Attempt;
}

/// One attempt at a custom action.
#[derive(Debug)]
pub struct Call {
    /// As in `call: NAME`.
    pub name: Name,
    /// The action's idempotency key, the same for every attempt.
    pub key: String,
    pub action: ActionKey,
    /// From 1.
    pub attempt: i32,
    /// The fencing token: grows with every lease.
    pub token: i64,
    /// End of this attempt's time.
    pub deadline: Instant,
    pub input: RawJson,
    /// The last progress reported by the previous attempt.
    pub progress: Option<RawJson>,
    pub pulse: Pulse,
}

/// Sends heartbeats of an attempt and receives its cancellation.
#[derive(Debug, Clone)]
pub struct Pulse {
    beats: watch::Sender<Beat>,
    cancelled: CancellationToken,
    /// Secrets to remove from progress.
    secrets: Arc<Filled>,
}

/// The last heartbeat of an attempt, with its newest progress.
#[derive(Debug, Clone)]
pub struct Beat {
    pub at: Instant,
    pub progress: Option<RawJson>,
}

impl Pulse {
    pub fn new(beats: watch::Sender<Beat>, cancelled: CancellationToken) -> Self {
        Self { beats, cancelled, secrets: Arc::default() }
    }

    /// For an attempt with these secrets: they are removed from its progress.
    pub(crate) fn keeping(self, secrets: Arc<Filled>) -> Self {
        Self { secrets, ..self }
    }

    /// Sends a heartbeat; the newest progress is kept and handed to the next attempt.
    pub fn beat(&self, progress: Option<RawJson>) {
        let progress = progress.map(|progress| self.secrets.redact_json(progress));
        self.beats.send_modify(|beat| {
            beat.at = Instant::now();
            if progress.is_some() {
                beat.progress = progress;
            }
        });
    }

    /// Fires when the execution was cancelled.
    pub fn cancelled(&self) -> &CancellationToken {
        &self.cancelled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_beat_without_progress_keeps_what_was_told_before() {
        let (beats, mut seen) = watch::channel(Beat { at: Instant::now(), progress: None });
        let pulse = Pulse::new(beats, CancellationToken::new());
        pulse.beat(Some(RawJson::trusted("7")));
        let first = seen.borrow_and_update().clone();
        pulse.clone().beat(None);
        let second = seen.borrow_and_update().clone();
        assert_eq!(second.progress, Some(RawJson::trusted("7")));
        assert!(second.at >= first.at);
    }
}
