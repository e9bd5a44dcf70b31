//! Retry policy of the client.

use std::time::Duration;

/// Retry policy: exponential back-off with full jitter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientRetry {
    /// Maximum number of attempts, including the first.
    pub attempts: u32,
    /// The longest pause before the second attempt; doubles with each one.
    pub backoff: Duration,
    /// Upper bound on a pause, unless the server asks for more (up to ten times as much).
    pub max: Duration,
}

impl Default for ClientRetry {
    /// About ten seconds in total: a restarting server is back by then.
    fn default() -> Self {
        Self { attempts: 8, backoff: Duration::from_millis(100), max: Duration::from_secs(3) }
    }
}

impl ClientRetry {
    /// Without retries.
    pub fn never() -> Self {
        Self { attempts: 1, ..Self::default() }
    }

    /// The pause after `attempt` failed, or `None` when that was the last one. `unit`, in `0.0..1.0`, is the
    /// jitter; `asked` is the server's `Retry-After`, which can only lengthen the pause.
    pub(crate) fn pause_after(&self, attempt: u32, unit: f64, asked: Option<Duration>) -> Option<Duration> {
        if attempt >= self.attempts {
            return None;
        }
        let doublings = attempt.saturating_sub(1).min(31);
        let bound = self.backoff.saturating_mul(1 << doublings).min(self.max);
        let asked = asked.unwrap_or_default().min(self.max.saturating_mul(10));
        Some(bound.mul_f64(unit.clamp(0.0, 1.0)).max(asked))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_backoff_doubles_to_bound() {
        let retry =
            ClientRetry { attempts: 5, backoff: Duration::from_millis(200), max: Duration::from_secs(1) };
        let pauses: Vec<_> =
            (1..=5).map(|n| retry.pause_after(n, 1.0, None).map(|p| p.as_millis())).collect();
        assert_eq!(pauses, [Some(200), Some(400), Some(800), Some(1000), None]);
        assert_eq!(retry.pause_after(1, 0.0, Some(Duration::from_secs(3))), Some(Duration::from_secs(3)));
        assert_eq!(retry.pause_after(1, 0.0, Some(Duration::MAX)), Some(Duration::from_secs(10)));
        assert_eq!(ClientRetry::never().pause_after(1, 1.0, None), None);
    }
}
