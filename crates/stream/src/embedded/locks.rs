//! Locks within the process: a table with deadlines, checked lazily on access.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use millstream_model::id::ExecutionKey;
use millstream_model::mutation::{self, Mutation};
use tokio::time::Instant;

use super::stream::EmbeddedStream;
use crate::StreamResult;
use crate::locks::{ExecutionLocks, LockToken};

/// Expired locks are removed when the table has doubled since the last removal, so that abandoned ones cost
/// neither memory nor time.
#[derive(Debug, Default)]
pub(super) struct EmbeddedLockTable {
    held: Mutex<EmbeddedHeldLocks>,
}

#[derive(Debug, Default)]
struct EmbeddedHeldLocks {
    locks: HashMap<ExecutionKey, EmbeddedLock>,
    sweep_at: usize,
}

#[derive(Debug)]
struct EmbeddedLock {
    token: LockToken,
    until: Instant,
}

const SMALLEST_SWEEP: usize = 1_024;

impl EmbeddedLockTable {
    fn held_locks(&self) -> MutexGuard<'_, EmbeddedHeldLocks> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EmbeddedHeldLocks {
    fn acquire(&mut self, key: &ExecutionKey, token: &LockToken, until: Instant, now: Instant) -> bool {
        match self.locks.get(key) {
            Some(lock) if lock.until > now && lock.token != *token => false,
            Some(_) | None => {
                self.locks.insert(key.clone(), EmbeddedLock { token: token.clone(), until });
                true
            }
        }
    }

    fn sweep_expired(&mut self, now: Instant) {
        if self.locks.len() >= self.sweep_at.max(SMALLEST_SWEEP) {
            self.locks.retain(|_, lock| lock.until > now);
            self.sweep_at = self.locks.len() * 2;
        }
    }

    fn own_lock(&mut self, key: &ExecutionKey, token: &LockToken, now: Instant) -> Option<&mut EmbeddedLock> {
        self.locks.get_mut(key).filter(|lock| {
            (lock.token == *token && lock.until > now) || mutation::is_active(Mutation::LockWithoutToken)
        })
    }
}

#[async_trait::async_trait]
impl ExecutionLocks for EmbeddedStream {
    async fn acquire_locks(
        &self,
        keys: &[ExecutionKey],
        token: &LockToken,
        ttl: Duration,
    ) -> StreamResult<Vec<bool>> {
        let now = Instant::now();
        let mut held = self.locks.held_locks();
        held.sweep_expired(now);
        Ok(keys.iter().map(|key| held.acquire(key, token, now + ttl, now)).collect())
    }

    async fn extend_locks(
        &self,
        keys: &[ExecutionKey],
        token: &LockToken,
        ttl: Duration,
    ) -> StreamResult<Vec<bool>> {
        let now = Instant::now();
        let mut held = self.locks.held_locks();
        let extend = |key| held.own_lock(key, token, now).map(|lock| lock.until = now + ttl).is_some();
        Ok(keys.iter().map(extend).collect())
    }

    async fn release_locks(&self, keys: &[ExecutionKey], token: &LockToken) -> StreamResult<()> {
        let now = Instant::now();
        let mut held = self.locks.held_locks();
        for key in keys {
            if held.own_lock(key, token, now).is_some() {
                held.locks.remove(key);
            }
        }
        Ok(())
    }
}
