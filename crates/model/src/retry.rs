//! Retry policy: exponential backoff with jitter, capped, and never shorter than a requested `Retry-After`.

use std::time::Duration;

use crate::error_class::ErrorClass;

/// Number of attempts and backoff of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Attempts in all, the first included. At least 1.
    pub attempts: u32,
    /// The longest wait before the second attempt; doubles with each attempt.
    pub backoff: Duration,
    /// No wait is longer than this.
    pub max: Duration,
    pub jitter: Jitter,
    /// Error classes that are not retried.
    pub except: Vec<ErrorClass>,
}

/// The random share of a backoff.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Jitter {
    /// The whole wait is random: simultaneous failures do not retry simultaneously.
    Full,
    /// The second half of the wait is random.
    Half,
    None,
}

impl Jitter {
    pub const ALL: &'static [Jitter] = &[Jitter::Full, Jitter::Half, Jitter::None];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Half => "half",
            Self::None => "none",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|jitter| jitter.as_str() == word)
    }

    /// Applies the jitter to `length`; `unit` is a random number in `0.0..1.0`.
    fn apply_to(self, length: Duration, unit: f64) -> Duration {
        let unit = unit.clamp(0.0, 1.0);
        match self {
            Self::Full => length.mul_f64(unit),
            Self::Half => length.mul_f64(0.5 + unit / 2.0),
            Self::None => length,
        }
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts: 5,
            backoff: Duration::from_secs(1),
            max: Duration::from_secs(60),
            jitter: Jitter::Full,
            except: Vec::new(),
        }
    }
}

impl RetryPolicy {
    /// The backoff after `attempt` failed, or `None` when that was the last attempt.
    ///
    /// `unit` is a random number in `0.0..1.0`; `asked` is the `Retry-After` of the remote side, which only
    /// lengthens the wait, up to ten times `max`.
    pub fn wait_after(&self, attempt: u32, unit: f64, asked: Option<Duration>) -> Option<Duration> {
        if attempt >= self.attempts {
            return None;
        }
        let doublings = attempt.saturating_sub(1).min(31);
        let ceiling = self.backoff.saturating_mul(1 << doublings).min(self.max);
        let jittered = self.jitter.apply_to(ceiling, unit);
        let asked = asked.unwrap_or_default().min(self.max.saturating_mul(10));
        Some(jittered.max(asked))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: RetryPolicy = RetryPolicy {
        attempts: 5,
        backoff: Duration::from_millis(200),
        max: Duration::from_secs(1),
        jitter: Jitter::Full,
        except: Vec::new(),
    };

    #[test]
    fn backoff_doubles_up_to_cap() {
        let waits: Vec<_> = (1..5).map(|n| POLICY.wait_after(n, 1.0, None).unwrap().as_millis()).collect();
        assert_eq!(waits, [200, 400, 800, 1000]);
    }

    #[test]
    fn jitter_bounds_the_random_share() {
        let wait = |jitter| {
            let policy = RetryPolicy { jitter, ..POLICY };
            [0.0, 1.0].map(|unit| policy.wait_after(1, unit, None).unwrap().as_millis())
        };
        assert_eq!(wait(Jitter::Full), [0, 200]);
        assert_eq!(wait(Jitter::Half), [100, 200]);
        assert_eq!(wait(Jitter::None), [200, 200]);
    }

    #[test]
    fn retry_stops_after_last_attempt() {
        assert_eq!(POLICY.wait_after(5, 1.0, None), None);
        assert_eq!(POLICY.wait_after(u32::MAX, 1.0, None), None);
    }

    #[test]
    fn retry_after_is_capped() {
        let asked = Some(Duration::from_secs(3));
        assert_eq!(POLICY.wait_after(1, 0.0, asked), asked);
        let unreasonable = Some(Duration::from_secs(86_400));
        assert_eq!(POLICY.wait_after(1, 0.0, unreasonable), Some(Duration::from_secs(10)));
    }
}
