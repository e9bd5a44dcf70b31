//! Queries of key lookups to a slow or silent store.

use std::sync::atomic::AtomicUsize;

use futures::future::join_all;
use millstream_model::id::TenantId;
use millstream_model::status::Role;
use millstream_store::clock::StoreClock;
use millstream_store::key_store::{KeyChoice, KeyFilter, KeyId, KeyPlace, KeyRotation, NewKey};
use millstream_store_memory::MemoryStore;
use tokio::sync::Semaphore;

use super::*;

/// A key store that counts queries, each of which waits for a permit.
struct StalledKeys {
    keys: Arc<dyn KeyStore>,
    queries: AtomicUsize,
    turns: Semaphore,
}

impl StalledKeys {
    async fn query(&self) {
        self.queries.fetch_add(1, Ordering::SeqCst);
        self.turns.acquire().await.unwrap().forget();
    }

    fn queries(&self) -> usize {
        self.queries.load(Ordering::SeqCst)
    }
}

#[async_trait::async_trait]
impl KeyStore for StalledKeys {
    async fn create_key(&self, key: &NewKey, now: Timestamp) -> StoreResult<bool> {
        self.keys.create_key(key, now).await
    }

    async fn find_keys(&self, hashes: &[KeyHash]) -> StoreResult<Vec<Option<KeyView>>> {
        self.query().await;
        self.keys.find_keys(hashes).await
    }

    async fn list_keys(
        &self,
        of: &KeyFilter,
        after: Option<KeyPlace>,
        limit: usize,
    ) -> StoreResult<Vec<KeyView>> {
        self.keys.list_keys(of, after, limit).await
    }

    async fn find_key_by_id(&self, id: KeyId) -> StoreResult<Option<KeyView>> {
        self.keys.find_key_by_id(id).await
    }

    async fn revoke_key(
        &self,
        tenant: Option<&TenantId>,
        which: &KeyChoice,
        now: Timestamp,
    ) -> StoreResult<bool> {
        self.keys.revoke_key(tenant, which, now).await
    }

    async fn keys_exist(&self) -> StoreResult<bool> {
        self.query().await;
        self.keys.keys_exist().await
    }

    async fn rotate_key(&self, rotation: &KeyRotation, now: Timestamp) -> StoreResult<bool> {
        self.keys.rotate_key(rotation, now).await
    }

    async fn purge_dead_keys(&self, before: Timestamp, limit: usize) -> StoreResult<u64> {
        self.keys.purge_dead_keys(before, limit).await
    }

    async fn record_key_uses(&self, uses: &[(KeyHash, Timestamp)]) -> StoreResult<()> {
        self.keys.record_key_uses(uses).await
    }
}

const SECRET: &str = "ms_known";

/// A lookup with a short cache time, and its store with one key.
async fn lookup() -> (KeyLookup, Arc<StalledKeys>) {
    let keys: Arc<dyn KeyStore> = MemoryStore::new();
    let hash = Sha256::digest(SECRET.as_bytes()).into();
    let key = NewKey::for_tenant(TenantId::default_tenant(), "known".to_owned(), Role::Read, hash);
    keys.create_key(&key, Timestamp::EPOCH).await.unwrap();
    let store = Arc::new(StalledKeys { keys, queries: AtomicUsize::new(0), turns: Semaphore::new(0) });
    let clock = Arc::new(StoreClock::starting_at(Timestamp::EPOCH));
    (KeyLookup::of(store.clone(), clock, Duration::from_secs(3)), store)
}

#[tokio::test(start_paused = true)]
async fn concurrent_key_refresh_is_one_query() {
    let (lookup, store) = lookup().await;
    store.turns.add_permits(1);
    assert!(lookup.find_key(SECRET, KeyOrigin::Proven).await.unwrap().is_some());
    tokio::time::advance(Duration::from_secs(4)).await;
    let mut all = std::pin::pin!(join_all((0..50).map(|_| lookup.find_key(SECRET, KeyOrigin::Proven))));
    assert!(futures::poll!(&mut all).is_pending());
    store.turns.add_permits(50);
    assert!(all.await.into_iter().all(|found| found.unwrap().is_some()));
    assert_eq!(store.queries(), 2);
}

#[tokio::test(start_paused = true)]
async fn silent_key_store_times_out_once() {
    let (lookup, store) = lookup().await;
    let answers = join_all((0..50).map(|_| lookup.keys_exist())).await;
    assert!(answers.iter().all(Result::is_err), "it does not answer");
    assert_eq!(store.queries(), 1);
    store.turns.add_permits(1);
    assert!(lookup.keys_exist().await.unwrap());
    assert!(lookup.keys_exist().await.unwrap(), "from then on it is known");
    assert_eq!(store.queries(), 2);
}
