//! The reference implementation: the contract in plain maps, for tests and simulations.
//!
//! One mutex over everything, never held across an await, so every call is one transaction. Written
//! to be read beside the SQL: when a backend and this disagree, the doc comments of the traits say
//! who is right.
//!
//! Refuses: durability, and speed beyond what tests need (leasing looks at every action).

mod action_store;
mod commit;
mod definition_store;
mod event_log;
mod event_views;
mod execution_store;
mod execution_views;
mod housekeeping;
mod intervention;
mod key_store;
mod leasing;
mod settle;
mod tables;
mod timer_store;
mod worker_store;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millstream_core::time::Timestamp;

use crate::clock::{Clock, StoreClock};
use tables::Tables;

/// A store that lives as long as its handle.
#[derive(Debug)]
pub struct Memory {
    tables: Mutex<Tables>,
    clock: Arc<dyn Clock>,
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

    fn tables(&self) -> MutexGuard<'_, Tables> {
        // A panic in the middle of a write can only come from a bug in here; the tests that hit it
        // should see that panic and not one about the lock.
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
