//! Keys that were looked up lately.
//!
//! Keys are found by their SHA-256. A lookup is believed for a few seconds, an absent key likewise in a cache of its
//! own, so that guessing does not push out real keys.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lru::LruCache;
use millstream_store::Result as StoreResult;
use millstream_store::key_store::{KeyStore, KeyView};
use sha2::{Digest, Sha256};

type Hash = [u8; 32];

/// A key, and when the store last said so.
#[derive(Debug, Clone)]
struct Known {
    key: Arc<KeyView>,
    at: Instant,
}

/// Keys that were looked up lately.
pub(crate) struct KeyLookup {
    store: Arc<dyn KeyStore>,
    ttl: Duration,
    known: Mutex<LruCache<Hash, Known>>,
    unknown: Mutex<LruCache<Hash, Instant>>,
    exist: Mutex<Option<(bool, Instant)>>,
}

const KNOWN: NonZeroUsize = NonZeroUsize::MIN.saturating_add(10_000);
const UNKNOWN: NonZeroUsize = NonZeroUsize::MIN.saturating_add(4_096);
/// How long "no key exists" is believed: the time between the first key and its being required.
const OPEN_FOR: Duration = Duration::from_secs(1);

impl KeyLookup {
    pub(crate) fn of(store: Arc<dyn KeyStore>, ttl: Duration) -> Self {
        Self {
            store,
            ttl: ttl.min(Duration::from_secs(5)),
            known: Mutex::new(LruCache::new(KNOWN)),
            unknown: Mutex::new(LruCache::new(UNKNOWN)),
            exist: Mutex::default(),
        }
    }

    pub(super) async fn find(&self, secret: &str) -> StoreResult<Option<Arc<KeyView>>> {
        let hash: Hash = Sha256::digest(secret.as_bytes()).into();
        if let Some(known) = lock(&self.known).get(&hash)
            && known.at.elapsed() < self.ttl
        {
            return Ok(Some(known.key.clone()));
        }
        if lock(&self.unknown).get(&hash).is_some_and(|at| at.elapsed() < self.ttl) {
            return Ok(None);
        }
        let found = self.store.find_key(&hash).await?.filter(|key| key.revoked_at.is_none()).map(Arc::new);
        match &found {
            Some(key) => {
                lock(&self.known).put(hash, Known { key: key.clone(), at: Instant::now() });
            }
            None => {
                lock(&self.known).pop(&hash);
                lock(&self.unknown).put(hash, Instant::now());
            }
        }
        Ok(found)
    }

    /// Whether a key was ever created: from then on keys are required, revoked ones included.
    pub(super) async fn exist(&self) -> StoreResult<bool> {
        if let Some((exist, at)) = *lock(&self.exist)
            && (exist || at.elapsed() < OPEN_FOR)
        {
            return Ok(exist);
        }
        let exist = self.store.keys_exist().await?;
        *lock(&self.exist) = Some((exist, Instant::now()));
        Ok(exist)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for KeyLookup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyLookup").finish_non_exhaustive()
    }
}
