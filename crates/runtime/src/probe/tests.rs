//! Access to the metrics of a worker, also while the store hangs, and the cost of a scraper.

use std::sync::atomic::{AtomicUsize, Ordering};

use millstream_model::id::TenantId;
use millstream_model::status::Role;
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::clock::Clock;
use millstream_store::key_secret::KeySecret;
use millstream_store::key_store::{
    KeyChoice, KeyFilter, KeyHash, KeyId, KeyPlace, KeyRotation, KeyStore, KeyView, NewKey,
};
use millstream_store_memory::MemoryStore;
use millstream_stream::StreamHandles;
use millstream_stream::embedded::EmbeddedStream;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::*;
use crate::entropy::SystemEntropy;

const LOOPBACK: &str = "127.0.0.1:9100";
const BEYOND: &str = "10.1.2.3:9100";

/// A key store that counts its queries and can hang.
struct ProbedKeys {
    keys: Arc<dyn KeyStore>,
    queries: AtomicUsize,
    hang: bool,
}

impl ProbedKeys {
    async fn count_query(&self) {
        self.queries.fetch_add(1, Ordering::SeqCst);
        if self.hang {
            std::future::pending::<()>().await;
        }
    }
}

#[async_trait::async_trait]
impl KeyStore for ProbedKeys {
    async fn create_key(&self, key: &NewKey, now: Timestamp) -> StoreResult<bool> {
        self.keys.create_key(key, now).await
    }

    async fn find_keys(&self, hashes: &[KeyHash]) -> StoreResult<Vec<Option<KeyView>>> {
        self.count_query().await;
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
        self.count_query().await;
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

async fn worker_with_keys(hang: bool) -> (RoleDependencies, Arc<ProbedKeys>) {
    let mut stores = Stores::from_backend(MemoryStore::new());
    let keys = Arc::new(ProbedKeys { keys: stores.keys.clone(), queries: AtomicUsize::new(0), hang });
    stores.keys = keys.clone();
    let streams = StreamHandles::from_backend(EmbeddedStream::new(&SystemEntropy::from_system()));
    (RoleDependencies::new(stores, streams).await, keys)
}

fn probe_state(shared: &RoleDependencies, address: &str) -> Arc<ProbeState> {
    let page: MetricsText = Arc::new(|| "millstream_up 1\n".to_owned());
    ProbeState::of(address.parse().unwrap(), shared, page, CancellationToken::new())
}

fn request_headers(host: &str, key: Option<&KeySecret>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(header::HOST, host.parse().unwrap());
    if let Some(key) = key {
        headers.insert(header::AUTHORIZATION, format!("Bearer {}", key.expose()).parse().unwrap());
    }
    headers
}

async fn refusal_status(
    shared: &RoleDependencies,
    address: &str,
    host: &str,
    key: Option<&KeySecret>,
) -> Option<u16> {
    metrics_refusal(&probe_state(shared, address), &request_headers(host, key))
        .await
        .map(|(status, _)| status.as_u16())
}

async fn create_key(shared: &RoleDependencies, role: Role) -> KeySecret {
    let secret = KeySecret::generate();
    let key = NewKey::for_tenant(TenantId::default_tenant(), role.to_string(), role, secret.hash());
    assert!(shared.stores.keys.create_key(&key, shared.clock.now()).await.unwrap());
    secret
}

#[tokio::test]
async fn worker_metrics_need_host_or_operator() {
    let (shared, _) = worker_with_keys(false).await;
    for address in [LOOPBACK, BEYOND] {
        assert_eq!(refusal_status(&shared, address, "evil.example", None).await, Some(403), "{address}");
        assert_eq!(refusal_status(&shared, address, address, None).await, None, "{address}");
    }
    let (operator, read) = (create_key(&shared, Role::Operator).await, create_key(&shared, Role::Read).await);
    assert_eq!(refusal_status(&shared, BEYOND, BEYOND, None).await, Some(401));
    assert_eq!(refusal_status(&shared, BEYOND, BEYOND, Some(&KeySecret::generate())).await, Some(401));
    assert_eq!(refusal_status(&shared, BEYOND, BEYOND, Some(&read)).await, Some(403));
    assert_eq!(refusal_status(&shared, BEYOND, "mill.example", Some(&operator)).await, None);
    assert_eq!(
        refusal_status(&shared, LOOPBACK, LOOPBACK, None).await,
        None,
        "scrapers of the machine itself"
    );
    assert_eq!(refusal_status(&shared, LOOPBACK, "evil.example", None).await, Some(403));
}

#[tokio::test(start_paused = true)]
async fn loopback_metrics_skip_the_store() {
    let (shared, keys) = worker_with_keys(true).await;
    assert_eq!(refusal_status(&shared, LOOPBACK, LOOPBACK, None).await, None);
    assert_eq!(keys.queries.load(Ordering::SeqCst), 0);
    assert_eq!(
        refusal_status(&shared, BEYOND, BEYOND, None).await,
        Some(503),
        "a store that hangs is waited for briefly"
    );
}

#[tokio::test]
async fn scrapers_share_key_lookup() {
    let (shared, keys) = worker_with_keys(false).await;
    let operator = create_key(&shared, Role::Operator).await;
    let probe = probe_state(&shared, BEYOND);
    for _ in 0..20 {
        let answer = serve_metrics(State(probe.clone()), request_headers(BEYOND, Some(&operator))).await;
        assert_eq!(answer.status(), StatusCode::OK);
    }
    assert_eq!(keys.queries.load(Ordering::SeqCst), 2, "whether keys exist, and this key");
}

#[tokio::test]
async fn connections_to_the_probe_are_bounded() {
    let (shared, _) = worker_with_keys(false).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let probe = serve_on(listener, probe_state(&shared, &address.to_string()));
    let mut open = Vec::new();
    for _ in 0..=probe_limits().connections_per_address {
        open.push(TcpStream::connect(address).await.unwrap());
    }
    let closed = tokio::time::timeout(Duration::from_secs(10), open[0].read(&mut [0; 1])).await;
    assert_eq!(closed.expect("the oldest is still open").unwrap(), 0);
    probe.stop_serving().await;
}
