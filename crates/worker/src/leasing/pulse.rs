//! The channel of an attempt for heartbeats, progress and cancellation.
//!
//! The attempt holds the sender, the table of leases the receiver: a lease with a heartbeat timeout is renewed
//! only after a heartbeat.

use std::sync::Arc;

use millstream_model::raw::RawJson;
use millstream_model::secrets::SecretValues;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Sends heartbeats of an attempt and receives its cancellation.
#[derive(Debug, Clone)]
pub struct AttemptPulse {
    beats: watch::Sender<AttemptBeat>,
    cancelled: CancellationToken,
    /// Secrets to remove from progress.
    secrets: Arc<SecretValues>,
}

/// The last heartbeat of an attempt, with its newest progress.
#[derive(Debug, Clone)]
pub struct AttemptBeat {
    pub at: Instant,
    pub progress: Option<RawJson>,
}

impl AttemptPulse {
    pub fn new(beats: watch::Sender<AttemptBeat>, cancelled: CancellationToken) -> Self {
        Self { beats, cancelled, secrets: Arc::default() }
    }

    /// For an attempt with these secrets: they are removed from its progress.
    pub(crate) fn redacting(self, secrets: Arc<SecretValues>) -> Self {
        Self { secrets, ..self }
    }

    /// Sends a heartbeat; the newest progress is kept and handed to the next attempt.
    pub fn send_beat(&self, progress: Option<RawJson>) {
        let progress = progress.map(|progress| self.secrets.redact_json(progress));
        self.beats.send_modify(|beat| {
            beat.at = Instant::now();
            if progress.is_some() {
                beat.progress = progress;
            }
        });
    }

    /// Fires when the execution was cancelled.
    pub fn cancellation(&self) -> &CancellationToken {
        &self.cancelled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn heartbeat_without_progress_keeps_last() {
        let (beats, mut seen) = watch::channel(AttemptBeat { at: Instant::now(), progress: None });
        let pulse = AttemptPulse::new(beats, CancellationToken::new());
        pulse.send_beat(Some(RawJson::from_trusted_text("7")));
        let first = seen.borrow_and_update().clone();
        pulse.clone().send_beat(None);
        let second = seen.borrow_and_update().clone();
        assert_eq!(second.progress, Some(RawJson::from_trusted_text("7")));
        assert!(second.at >= first.at);
    }
}
