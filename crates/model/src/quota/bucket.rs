//! Token bucket: a rate limit with a burst, and the time until the next token.
//!
//! Time is a parameter, measured from any fixed moment. It must not go back; a time in the past counts as the
//! last one.

use std::time::Duration;

/// Refill rate and capacity of a bucket.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BucketRate {
    pub per_second: u64,
    pub burst: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenBucket {
    /// In billionths of a token, so that no rate loses anything to rounding.
    level: u128,
    at: Duration,
}

const NANO: u128 = 1_000_000_000;

impl TokenBucket {
    /// A full bucket.
    pub fn new_full(rate: BucketRate, now: Duration) -> Self {
        Self { level: bucket_capacity(rate), at: now }
    }

    /// Takes `tokens`, or returns the time until they are available. A batch larger than the bucket is served
    /// when the bucket is full, and the next caller waits correspondingly longer.
    pub fn take(&mut self, rate: BucketRate, tokens: u64, now: Duration) -> Result<(), Duration> {
        let passed = now.saturating_sub(self.at);
        self.at = self.at.max(now);
        let most = bucket_capacity(rate);
        self.level = (self.level + passed.as_nanos() * u128::from(rate.per_second)).min(most);
        let wanted = (u128::from(tokens) * NANO).min(most);
        if wanted <= self.level {
            self.level -= wanted;
            // The remainder of a batch larger than the burst becomes waiting time.
            let owed = (u128::from(tokens) * NANO).saturating_sub(most);
            if owed > 0 && rate.per_second > 0 {
                let wait = owed / u128::from(rate.per_second);
                self.at += Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX / 4));
            }
            return Ok(());
        }
        if rate.per_second == 0 {
            return Err(Duration::from_secs(3_600));
        }
        let missing = (wanted - self.level).div_ceil(u128::from(rate.per_second));
        let owing = self.at.saturating_sub(now);
        Err(owing + Duration::from_nanos(u64::try_from(missing).unwrap_or(u64::MAX / 4)))
    }
}

fn bucket_capacity(rate: BucketRate) -> u128 {
    u128::from(rate.burst.max(1)) * NANO
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: BucketRate = BucketRate { per_second: 10, burst: 5 };

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn token_bucket_limits_rate_after_burst() {
        let mut bucket = TokenBucket::new_full(RATE, ms(0));
        for _ in 0..5 {
            assert_eq!(bucket.take(RATE, 1, ms(0)), Ok(()));
        }
        assert_eq!(bucket.take(RATE, 1, ms(0)), Err(ms(100)));
        assert_eq!(bucket.take(RATE, 1, ms(40)), Err(ms(60)));
        assert_eq!(bucket.take(RATE, 1, ms(100)), Ok(()));
        let passed = (101..=10_100u64).filter(|at| bucket.take(RATE, 1, ms(*at)).is_ok()).count();
        assert_eq!(passed, 100);
    }

    #[test]
    fn idle_token_bucket_holds_one_burst() {
        let mut bucket = TokenBucket::new_full(RATE, ms(0));
        assert_eq!((0..9).filter(|_| bucket.take(RATE, 1, ms(3_600_000)).is_ok()).count(), 5);
    }

    #[test]
    fn oversized_batch_delays_next_take() {
        let mut bucket = TokenBucket::new_full(RATE, ms(0));
        assert_eq!(bucket.take(RATE, 25, ms(0)), Ok(()));
        assert_eq!(bucket.take(RATE, 1, ms(0)), Err(ms(2_100)));
        assert_eq!(bucket.take(RATE, 1, ms(2_099)), Err(ms(1)));
        assert_eq!(bucket.take(RATE, 1, ms(2_100)), Ok(()));
    }

    #[test]
    fn token_bucket_ignores_time_going_back() {
        let mut bucket = TokenBucket::new_full(RATE, ms(1_000));
        assert_eq!(bucket.take(RATE, 5, ms(1_000)), Ok(()));
        assert!(bucket.take(RATE, 1, ms(0)).is_err());
        let none = BucketRate { per_second: 0, burst: 0 };
        let mut bucket = TokenBucket::new_full(none, ms(0));
        assert_eq!(bucket.take(none, 1, ms(0)), Ok(()));
        assert!(bucket.take(none, 1, ms(9_000)).is_err());
    }
}
