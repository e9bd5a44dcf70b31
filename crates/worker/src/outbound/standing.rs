//! How a sink stands with a courier: what it refused of late, and until when it is left alone.
//!
//! An answer is about what was sent, which is put off, longer each time. No answer, or too many refusals without a
//! success in between, is about the sink, which is then left alone as a whole, longer each time.

use std::time::Duration;

use millstream_core::id::Name;
use millstream_core::retry::{Jitter, RetryPolicy};
use tokio::time::Instant;

use super::sink::Refusal;
use crate::metrics;
use crate::worker::Worker;

/// So many refusals without a success in between: it is not what was sent.
const TOO_MANY: u32 = 16;
/// How often refusals are logged.
const QUIET: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Standing {
    /// Batches that were not taken since one was.
    failures: u32,
    /// The sink is left alone until then.
    rest: Option<Instant>,
    log: FailureLog,
}

/// What was logged of failures: an outage once, refusals once in a while.
#[derive(Debug, Default)]
pub(crate) struct FailureLog {
    is_away: bool,
    refused: Option<Instant>,
}

/// Between two looks at a sink that is away.
fn indulgence() -> RetryPolicy {
    let (backoff, max) = (Duration::from_millis(500), Duration::from_secs(30));
    RetryPolicy { attempts: u32::MAX, backoff, max, jitter: Jitter::Half, except: Vec::new() }
}

/// How long what was refused so often is left alone.
pub(crate) fn patience(worker: &Worker, attempts: u32) -> Duration {
    let (backoff, max) = (Duration::from_secs(1), Duration::from_secs(300));
    let policy = RetryPolicy { attempts: u32::MAX, backoff, max, jitter: Jitter::Half, except: Vec::new() };
    policy.wait_after(attempts, worker.unit(), None).unwrap_or_default()
}

impl Standing {
    pub(crate) const fn new(log: FailureLog) -> Self {
        Self { failures: 0, rest: None, log }
    }

    pub(crate) fn into_log(self) -> FailureLog {
        self.log
    }

    /// Until when it is left alone, if it is.
    pub(crate) fn rest(&self) -> Option<Instant> {
        self.rest.filter(|until| *until > Instant::now())
    }

    pub(crate) const fn is_away(&self) -> bool {
        self.log.is_away
    }

    /// What a batch says about the sink as a whole.
    pub(crate) fn judge(&mut self, worker: &Worker, sink: &Name, sent: usize, refusal: Option<&Refusal>) {
        let name = || sink.as_str().to_owned();
        ::metrics::counter!(metrics::PUBLISHED, "sink" => name()).increment(sent as u64);
        if sent > 0 {
            self.failures = 0;
            if std::mem::take(&mut self.log.is_away) {
                tracing::info!(sink = name(), "the sink takes events again");
            }
        }
        let Some(refusal) = refusal else { return };
        ::metrics::counter!(metrics::PUBLISH_FAILURES, "sink" => name()).increment(1);
        self.failures = self.failures.saturating_add(1);
        let asked = match refusal {
            Refusal::Away { retry_after, .. } => *retry_after,
            Refusal::Refused { error } if self.failures < TOO_MANY => {
                let now = Instant::now();
                if self.log.refused.is_none_or(|logged| now - logged >= QUIET) {
                    self.log.refused = Some(now);
                    tracing::warn!(sink = name(), error, "events are refused; they are tried again");
                }
                return;
            }
            Refusal::Refused { .. } => None,
        };
        if !std::mem::replace(&mut self.log.is_away, true) {
            let error = refusal.error();
            tracing::warn!(sink = name(), error, "the sink takes no events; they wait and it is tried again");
        }
        let wait = indulgence().wait_after(self.failures, worker.unit(), asked).unwrap_or_default();
        self.rest = Some(Instant::now() + wait);
    }
}
