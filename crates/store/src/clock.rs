//! Clocks of roles: the store's time, estimated without a round trip to the store.
//!
//! A [`StoreClock`] is a monotonic clock plus an offset measured against the store: a worker with a wrong
//! wall clock agrees with the others, and a jump of the wall clock has no effect. Tests and simulations use a
//! [`ManualClock`].

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use millstream_model::time::Timestamp;
use tokio::time::Instant;

/// The source of `now` for roles.
pub trait Clock: Send + Sync + std::fmt::Debug {
    fn now(&self) -> Timestamp;

    /// Take a new measurement: the store answered `store_time` after `round_trip`. A clock that does not
    /// follow the store ignores it.
    fn follow_store(&self, store_time: Timestamp, round_trip: Duration) {
        let _ = (store_time, round_trip);
    }
}

/// Monotonic time plus an offset that follows the store.
#[derive(Debug)]
pub struct StoreClock {
    started: Instant,
    /// Store time minus monotonic time, in milliseconds.
    offset: AtomicI64,
}

impl StoreClock {
    pub fn starting_at(store_time: Timestamp) -> Self {
        Self { started: Instant::now(), offset: AtomicI64::new(store_time.as_millis()) }
    }

    /// Take a new measurement: the store answered `store_time` after `round_trip`.
    pub fn adjust(&self, store_time: Timestamp, round_trip: Duration) {
        let midpoint = store_time.plus(round_trip / 2);
        self.offset.store(midpoint.as_millis() - self.elapsed(), Ordering::Relaxed);
    }

    fn elapsed(&self) -> i64 {
        i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX)
    }
}

impl Clock for StoreClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.offset.load(Ordering::Relaxed).saturating_add(self.elapsed()))
    }

    fn follow_store(&self, store_time: Timestamp, round_trip: Duration) {
        self.adjust(store_time, round_trip);
    }
}

/// A clock that moves only when a test moves it.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    pub fn starting_at(time: Timestamp) -> Self {
        Self(AtomicI64::new(time.as_millis()))
    }

    pub fn advance(&self, length: Duration) {
        self.0.fetch_add(i64::try_from(length.as_millis()).unwrap_or(i64::MAX), Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::Relaxed))
    }
}
