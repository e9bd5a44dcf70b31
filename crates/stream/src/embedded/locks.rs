//! Locks within the process: a table with deadlines, checked lazily on access.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use millstream_core::id::ExecutionKey;
use millstream_core::planted::{self, Bug};
use tokio::time::Instant;

use super::stream::EmbeddedStream;
use crate::Result;
use crate::locks::{LockToken, Locks};

/// Expired locks are removed when the table has doubled since the last removal, so that abandoned ones cost
/// neither memory nor time.
#[derive(Debug, Default)]
pub(super) struct LockTable {
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    locks: HashMap<ExecutionKey, Lock>,
    sweep_at: usize,
}

#[derive(Debug)]
struct Lock {
    token: LockToken,
    until: Instant,
}

const SMALLEST_SWEEP: usize = 1_024;

impl LockTable {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn acquire(&mut self, key: &ExecutionKey, token: &LockToken, until: Instant, now: Instant) -> bool {
        match self.locks.get(key) {
            Some(lock) if lock.until > now && lock.token != *token => false,
            Some(_) | None => {
                self.locks.insert(key.clone(), Lock { token: token.clone(), until });
                true
            }
        }
    }

    fn sweep(&mut self, now: Instant) {
        if self.locks.len() >= self.sweep_at.max(SMALLEST_SWEEP) {
            self.locks.retain(|_, lock| lock.until > now);
            self.sweep_at = self.locks.len() * 2;
        }
    }

    fn ours(&mut self, key: &ExecutionKey, token: &LockToken, now: Instant) -> Option<&mut Lock> {
        self.locks
            .get_mut(key)
            .filter(|lock| (lock.token == *token && lock.until > now) || planted::is(Bug::LockWithoutToken))
    }
}

#[async_trait::async_trait]
impl Locks for EmbeddedStream {
    async fn acquire(&self, keys: &[ExecutionKey], token: &LockToken, ttl: Duration) -> Result<Vec<bool>> {
        let now = Instant::now();
        let mut held = self.locks.held();
        held.sweep(now);
        Ok(keys.iter().map(|key| held.acquire(key, token, now + ttl, now)).collect())
    }

    async fn extend(&self, keys: &[ExecutionKey], token: &LockToken, ttl: Duration) -> Result<Vec<bool>> {
        let now = Instant::now();
        let mut held = self.locks.held();
        let extend = |key| held.ours(key, token, now).map(|lock| lock.until = now + ttl).is_some();
        Ok(keys.iter().map(extend).collect())
    }

    async fn release(&self, keys: &[ExecutionKey], token: &LockToken) -> Result<()> {
        let now = Instant::now();
        let mut held = self.locks.held();
        for key in keys {
            if held.ours(key, token, now).is_some() {
                held.locks.remove(key);
            }
        }
        Ok(())
    }
}
