//! API key lookup, cached and batched.
//!
//! Keys are found by their SHA-256. A found key is cached for a few seconds; absent keys have a cache of
//! their own, so that guessing does not evict real keys. Keys that are in neither cache are looked up in
//! batches, and a batch with an unknown key delays the next one (rate limit): guessing costs the store a
//! bounded number of queries, and an honest key that is new to this process waits for the next batch.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lru::LruCache;
use millstream_model::time::Timestamp;
use millstream_store::clock::Clock;
use millstream_store::key_store::{KeyHash, KeyStore, KeyView};
use millstream_store::{StoreError, StoreResult};
use sha2::{Digest, Sha256};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::life::WatchedKeys;
use super::waiting_lookups::{KeyOrigin, WaitingLookups};
use crate::refusal::{RefusalKind, RequestRefusal};

/// A cached key, and its last use in this process.
#[derive(Debug)]
pub(crate) struct CachedKey {
    pub(super) view: KeyView,
    found_at: Instant,
    used_millis: AtomicI64,
    recorded_millis: AtomicI64,
    /// Single flight: held by the caller that refreshes the key on behalf of all concurrent callers; the
    /// last failure and its time.
    refreshing: tokio::sync::Mutex<Option<(StoreError, Instant)>>,
}

/// A key to look up, and the caller that waits for it.
type WaitingLookup = (KeyHash, oneshot::Sender<StoreResult<Option<KeyView>>>);

pub(crate) struct KeyLookup {
    pub(super) store: Arc<dyn KeyStore>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) watched: WatchedKeys,
    ttl: Duration,
    known: Mutex<LruCache<KeyHash, Arc<CachedKey>>>,
    unknown: Mutex<LruCache<KeyHash, Instant>>,
    exist: Mutex<Option<(bool, Instant)>>,
    /// Single flight: held by the caller that asks the store whether a key exists, on behalf of all
    /// concurrent callers; the last answer and its time.
    asking: tokio::sync::Mutex<Option<(StoreResult<bool>, Instant)>>,
    waiting: Mutex<WaitingLookups<WaitingLookup>>,
    /// Held by the caller that sends the batch for all waiting callers; the earliest time of the next
    /// batch.
    turn: tokio::sync::Mutex<Option<Instant>>,
}

const KNOWN: NonZeroUsize = NonZeroUsize::MIN.saturating_add(10_000);
const UNKNOWN: NonZeroUsize = NonZeroUsize::MIN.saturating_add(16_384);
/// Cache time of "no key exists": the delay between the creation of the first key and its being required.
const OPEN_FOR: Duration = Duration::from_secs(1);
/// Timeout of the query whether a key exists.
const EXIST_PATIENCE: Duration = Duration::from_secs(2);
/// Keys per batch.
const AT_ONCE: usize = 512;
/// Delay of the next batch after one that found an unknown key.
const GUESS_PAUSE: Duration = Duration::from_millis(50);

impl KeyLookup {
    pub(crate) fn of(store: Arc<dyn KeyStore>, clock: Arc<dyn Clock>, ttl: Duration) -> Self {
        Self {
            store,
            clock,
            watched: WatchedKeys::default(),
            ttl: ttl.min(Duration::from_secs(5)),
            known: Mutex::new(LruCache::new(KNOWN)),
            unknown: Mutex::new(LruCache::new(UNKNOWN)),
            exist: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
            waiting: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// The live key with this secret; records its use.
    pub(super) async fn find_key(
        &self,
        secret: &str,
        origin: KeyOrigin,
    ) -> Result<Option<Arc<CachedKey>>, RequestRefusal> {
        let hash: KeyHash = Sha256::digest(secret.as_bytes()).into();
        let known = lock_ignoring_poison(&self.known).get(&hash).cloned();
        let found = match known {
            Some(known) if known.found_at.elapsed() < self.ttl => Some(known),
            Some(stale) => self.refresh_key(hash, &stale).await?,
            None if self.is_unknown(&hash) => None,
            None => {
                let found = self.look_up_in_batch(hash, origin).await?;
                self.cache_key(hash, found)
            }
        };
        let now = self.clock.now();
        let live = found.filter(|known| known.view.is_live(now));
        if let Some(known) = &live {
            known.used_millis.store(now.as_millis(), Ordering::Relaxed);
        }
        Ok(live)
    }

    fn is_unknown(&self, hash: &KeyHash) -> bool {
        lock_ignoring_poison(&self.unknown).get(hash).is_some_and(|at| at.elapsed() < self.ttl)
    }

    /// Refreshes a key that was valid a moment ago, without waiting for guesses. One query serves all
    /// concurrent callers.
    async fn refresh_key(&self, hash: KeyHash, stale: &CachedKey) -> StoreResult<Option<Arc<CachedKey>>> {
        let asked = Instant::now();
        let mut failed = stale.refreshing.lock().await;
        let known = lock_ignoring_poison(&self.known).get(&hash).cloned();
        if let Some(fresh) = known.filter(|known| known.found_at >= asked) {
            return Ok(Some(fresh));
        }
        if self.is_unknown(&hash) {
            return Ok(None);
        }
        if let Some((error, at)) = &*failed
            && *at >= asked
        {
            return Err(error.clone());
        }
        match self.store.find_key(&hash).await {
            Ok(found) => Ok(self.cache_key(hash, found)),
            Err(error) => {
                *failed = Some((error.clone(), Instant::now()));
                Err(error)
            }
        }
    }

    fn cache_key(&self, hash: KeyHash, found: Option<KeyView>) -> Option<Arc<CachedKey>> {
        let Some(view) = found else {
            lock_ignoring_poison(&self.known).pop(&hash);
            lock_ignoring_poison(&self.unknown).put(hash, Instant::now());
            return None;
        };
        let mut known = lock_ignoring_poison(&self.known);
        let (used, recorded) = known.peek(&hash).map_or((0, 0), |before| {
            (before.used_millis.load(Ordering::Relaxed), before.recorded_millis.load(Ordering::Relaxed))
        });
        let key = Arc::new(CachedKey {
            view,
            found_at: Instant::now(),
            used_millis: AtomicI64::new(used),
            recorded_millis: AtomicI64::new(recorded),
            refreshing: tokio::sync::Mutex::default(),
        });
        known.put(hash, key.clone());
        Some(key)
    }

    /// Removes the key from the cache: its next use asks the store.
    pub(crate) fn forget_key(&self, hash: &KeyHash) {
        lock_ignoring_poison(&self.known).pop(hash);
    }

    /// Ends everything that the key holds open in this process, and removes it from the cache.
    pub(crate) fn end_key(&self, hash: &KeyHash) {
        self.forget_key(hash);
        self.watched.end_key(hash);
    }

    /// Joins the next batch: the caller that gets the turn looks up the keys of all waiting callers.
    async fn look_up_in_batch(
        &self,
        hash: KeyHash,
        origin: KeyOrigin,
    ) -> Result<Option<KeyView>, RequestRefusal> {
        loop {
            let (answer, mut answered) = oneshot::channel();
            {
                let mut waiting = lock_ignoring_poison(&self.waiting);
                waiting.retain_waiters(|(_, answer)| !answer.is_closed());
                let added = waiting.push_waiter(origin, (hash, answer));
                added.map_err(|_| {
                    RequestRefusal::new(RefusalKind::Busy, "too many keys are being looked up")
                })?;
            }
            let mut not_before = self.turn.lock().await;
            // Answered while waiting for the turn.
            if let Ok(found) = answered.try_recv() {
                return Ok(found?);
            }
            if let Some(at) = *not_before {
                tokio::time::sleep_until(at).await;
            }
            *not_before = self.send_batch().await;
            drop(not_before);
            // Otherwise the batch was full, or was cancelled together with the request that sent it.
            if let Ok(found) = answered.try_recv() {
                return Ok(found?);
            }
        }
    }

    /// Sends one batch; returns the earliest time of the next one.
    async fn send_batch(&self) -> Option<Instant> {
        let mut waiting = lock_ignoring_poison(&self.waiting).take_waiters(AT_ONCE);
        waiting.retain(|(_, answer)| !answer.is_closed());
        let hashes: Vec<KeyHash> = waiting.iter().map(|(hash, _)| *hash).collect();
        match self.store.find_keys(&hashes).await {
            Ok(found) => {
                let guessed = found.iter().any(Option::is_none);
                for ((hash, answer), view) in waiting.into_iter().zip(found) {
                    self.cache_key(hash, view.clone());
                    let _ = answer.send(Ok(view));
                }
                guessed.then(|| Instant::now() + GUESS_PAUSE)
            }
            Err(error) => {
                for (_, answer) in waiting {
                    let _ = answer.send(Err(error.clone()));
                }
                None
            }
        }
    }

    /// Whether a key was ever created: from then on keys are required, even if all of them are revoked.
    /// Single flight: one query at a time answers all concurrent callers; a store that does not answer in
    /// time counts as unavailable.
    pub(crate) async fn keys_exist(&self) -> StoreResult<bool> {
        if let Some((exist, at)) = *lock_ignoring_poison(&self.exist)
            && (exist || at.elapsed() < OPEN_FOR)
        {
            return Ok(exist);
        }
        let asked = Instant::now();
        let silent = |_| StoreError::Unavailable("the store did not answer whether a key exists".to_owned());
        let mut last = tokio::time::timeout(EXIST_PATIENCE, self.asking.lock()).await.map_err(silent)?;
        if let Some((answer, at)) = &*last
            && *at > asked
        {
            return answer.clone();
        }
        let answer = tokio::time::timeout(EXIST_PATIENCE, self.store.keys_exist()).await;
        let answer = answer.map_err(silent).flatten();
        let now = Instant::now();
        if let Ok(exist) = answer {
            *lock_ignoring_poison(&self.exist) = Some((exist, now));
        }
        *last = Some((answer.clone(), now));
        answer
    }

    /// Writes the keys used since the last call, in one statement.
    pub(super) async fn record_uses(&self) {
        let used: Vec<Arc<CachedKey>> = {
            let known = lock_ignoring_poison(&self.known);
            let fresh = |key: &&Arc<CachedKey>| {
                key.used_millis.load(Ordering::Relaxed) > key.recorded_millis.load(Ordering::Relaxed)
            };
            known.iter().map(|(_, key)| key).filter(fresh).cloned().collect()
        };
        for keys in used.chunks(AT_ONCE) {
            let at = |key: &Arc<CachedKey>| key.used_millis.load(Ordering::Relaxed);
            let uses: Vec<_> =
                keys.iter().map(|key| (key.view.hash, Timestamp::from_millis(at(key)))).collect();
            match self.store.record_key_uses(&uses).await {
                Ok(()) => {
                    for (key, (_, written)) in keys.iter().zip(&uses) {
                        key.recorded_millis.store(written.as_millis(), Ordering::Relaxed);
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "recording the last use of keys failed; retrying later")
                }
            }
        }
    }
}

fn lock_ignoring_poison<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for KeyLookup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyLookup").finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "lookup/tests.rs"]
mod tests;
