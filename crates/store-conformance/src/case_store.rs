//! Environment of a case: a fresh store, its time, and ids.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use millstream_model::entropy::{self, Entropy};
use millstream_model::id::EventId;
use millstream_model::time::Timestamp;
use millstream_store::Stores;

/// A fresh and empty store for one case. Clones are the same store.
#[derive(Clone)]
pub struct ConformanceBench {
    pub stores: Stores,
    ids: Arc<ConformanceIds>,
    _kept: Arc<dyn Any + Send + Sync>,
}

impl ConformanceBench {
    pub fn new(stores: Stores) -> Self {
        Self { stores, ids: Arc::default(), _kept: Arc::new(()) }
    }

    /// Keep a value (a temporary directory, a database to drop) until the case is over.
    #[must_use]
    pub fn keeping(self, guard: impl Any + Send + Sync) -> Self {
        Self { _kept: Arc::new(guard), ..self }
    }

    /// The store's time.
    pub async fn now(&self) -> Timestamp {
        self.stores.housekeeping.ping().await.unwrap()
    }

    /// Wait until `time` has passed by the store's clock, and return the time then.
    pub async fn passed(&self, time: Timestamp) -> Timestamp {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let now = self.now().await;
            if now > time {
                return now;
            }
            assert!(Instant::now() < deadline, "the store's time does not pass: {now} is not after {time}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    pub(crate) fn event_id(&self) -> EventId {
        entropy::event_id(Timestamp::EPOCH, &*self.ids)
    }
}

impl std::fmt::Debug for ConformanceBench {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bench").finish_non_exhaustive()
    }
}

/// Ids that are distinct within a case; nothing in the suite needs them to be random. They count *down*, so
/// that a backend which orders events by id fails.
#[derive(Debug, Default)]
struct ConformanceIds(AtomicU64);

impl Entropy for ConformanceIds {
    fn next_u64(&self) -> u64 {
        u64::MAX - self.0.fetch_add(1, Ordering::Relaxed)
    }
}
