//! The handle: every table behind one mutex, and the store's clock.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millstream_model::time::Timestamp;
use millstream_store::clock::{Clock, StoreClock};

use crate::tables::MemoryTables;

/// A store that lives as long as its handle.
#[derive(Debug)]
pub struct MemoryStore {
    tables: Mutex<MemoryTables>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl MemoryStore {
    /// With the system's clock.
    pub fn new() -> Arc<Self> {
        let since_epoch = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        Self::with_clock(Arc::new(StoreClock::starting_at(Timestamp::EPOCH.plus(since_epoch))))
    }

    /// With the caller's clock: a simulation's.
    pub fn with_clock(clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { tables: Mutex::default(), clock })
    }

    pub(crate) fn lock_tables(&self) -> MutexGuard<'_, MemoryTables> {
        // A poisoned lock: a panic in the middle of a write is a bug in this module; the tests that hit it
        // should report that panic and not the lock.
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
