//! Sink health (circuit breaker with back-off): recent refusals, and the pause of an unavailable sink.
//!
//! A refusal concerns the events sent, which are deferred with growing back-off. No answer, or too many
//! refusals in a row, concerns the sink, which is then paused as a whole with growing back-off.

use std::time::Duration;

use millstream_model::id::Name;
use millstream_model::retry::{Jitter, RetryPolicy};
use tokio::time::Instant;

use super::sink::SinkRefusal;
use crate::environment::WorkerEnvironment;
use crate::metrics;

/// After this many refusals in a row the fault is the sink's, and not that of the events.
const TOO_MANY: u32 = 16;
/// Minimum time between two log lines about refusals.
const QUIET: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct SinkHealth {
    /// Failed batches since the last success.
    failures: u32,
    /// The sink is paused until then.
    rest: Option<Instant>,
    log: FailureLog,
}

/// Limits the log: an outage once, refusals once per interval.
#[derive(Debug, Default)]
pub(crate) struct FailureLog {
    is_away: bool,
    refused: Option<Instant>,
}

/// Back-off between two probes of an unavailable sink.
fn outage_backoff() -> RetryPolicy {
    let (backoff, max) = (Duration::from_millis(500), Duration::from_secs(30));
    RetryPolicy { attempts: u32::MAX, backoff, max, jitter: Jitter::Half, except: Vec::new() }
}

/// Back-off of events that were refused this often.
pub(crate) fn refusal_backoff(env: &WorkerEnvironment, attempts: u32) -> Duration {
    let (backoff, max) = (Duration::from_secs(1), Duration::from_secs(300));
    let policy = RetryPolicy { attempts: u32::MAX, backoff, max, jitter: Jitter::Half, except: Vec::new() };
    policy.wait_after(attempts, env.random_unit(), None).unwrap_or_default()
}

impl SinkHealth {
    pub(crate) const fn new(log: FailureLog) -> Self {
        Self { failures: 0, rest: None, log }
    }

    pub(crate) fn into_log(self) -> FailureLog {
        self.log
    }

    /// End of the pause, if it is paused.
    pub(crate) fn paused_until(&self) -> Option<Instant> {
        self.rest.filter(|until| *until > Instant::now())
    }

    pub(crate) const fn is_away(&self) -> bool {
        self.log.is_away
    }

    /// Updates the health of the sink as a whole from a batch's outcome.
    pub(crate) fn record_batch(
        &mut self,
        env: &WorkerEnvironment,
        sink: &Name,
        sent: usize,
        refusal: Option<&SinkRefusal>,
    ) {
        let name = || sink.as_str().to_owned();
        ::metrics::counter!(metrics::PUBLISHED, "sink" => name()).increment(sent as u64);
        if sent > 0 {
            self.failures = 0;
            if std::mem::take(&mut self.log.is_away) {
                tracing::info!(sink = name(), "sink is available again");
            }
        }
        let Some(refusal) = refusal else { return };
        ::metrics::counter!(metrics::PUBLISH_FAILURES, "sink" => name()).increment(1);
        self.failures = self.failures.saturating_add(1);
        let asked = match refusal {
            SinkRefusal::Away { retry_after, .. } => *retry_after,
            SinkRefusal::Refused { error } if self.failures < TOO_MANY => {
                let now = Instant::now();
                if self.log.refused.is_none_or(|logged| now - logged >= QUIET) {
                    self.log.refused = Some(now);
                    tracing::warn!(sink = name(), error, "sink refuses events; retrying with back-off");
                }
                return;
            }
            SinkRefusal::Refused { .. } => None,
        };
        if !std::mem::replace(&mut self.log.is_away, true) {
            let error = refusal.error();
            tracing::warn!(
                sink = name(),
                error,
                "sink is unavailable; events wait and are retried with back-off"
            );
        }
        let wait = outage_backoff().wait_after(self.failures, env.random_unit(), asked).unwrap_or_default();
        self.rest = Some(Instant::now() + wait);
    }
}
