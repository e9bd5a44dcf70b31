//! The handle: every table behind one mutex, and the time that the store goes by.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millstream_core::time::Timestamp;

use super::tables::Tables;
use crate::clock::{Clock, StoreClock};

/// A store that lives as long as its handle.
#[derive(Debug)]
pub struct Memory {
    tables: Mutex<Tables>,
    pub(super) clock: Arc<dyn Clock>,
}

impl Memory {
    /// On the system's time.
    pub fn new() -> Arc<Self> {
        let since_epoch = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        Self::with_clock(Arc::new(StoreClock::starting_at(Timestamp::EPOCH.plus(since_epoch))))
    }

    /// On a time of the caller's: a simulation's.
    pub fn with_clock(clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { tables: Mutex::default(), clock })
    }

    pub(super) fn tables(&self) -> MutexGuard<'_, Tables> {
        // A panic in the middle of a write can only come from a bug in here; the tests that hit it
        // should see that panic and not one about the lock.
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
