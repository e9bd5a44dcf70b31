//! API keys: authentication, roles and tenant isolation.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request};
use millstream_ingress::{AuthMode, IngressOptions};
use millstream_model::id::TenantId;
use millstream_model::status::Role;
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::key_store::{
    KeyChoice, KeyFilter, KeyHash, KeyId, KeyPlace, KeyRotation, KeyStore, KeyView, NewKey,
};
use serde_json::json;
use sha2::{Digest, Sha256};
use tower::ServiceExt;

use crate::bench::{Bench, ORDER, get, header, open_options, post, yaml};
use crate::wire::serve;

fn keyed(request: Request<Body>, secret: &str) -> Request<Body> {
    header(request, "authorization", &format!("Bearer {secret}"))
}

async fn with_keys() -> Bench {
    let options = IngressOptions { auth: AuthMode::Keys, ..open_options() };
    let bench = Bench::with(options, |stores, streams| (stores, streams));
    for role in [Role::Submit, Role::Read, Role::Admin] {
        bench.key(&format!("ms_a_{role}"), "tenant-a", role).await;
        bench.key(&format!("ms_b_{role}"), "tenant-b", role).await;
    }
    bench
}

fn bare(method: &Method, path: &str) -> Request<Body> {
    Request::builder().method(method).uri(path).body(Body::empty()).unwrap()
}

#[tokio::test]
async fn invalid_key_is_401() {
    let bench = with_keys().await;
    for value in
        ["", "Bearer", "Bearer ", "Bearer ms_unknown", "Bearer nope", "Basic ms_a_admin", "ms_a_admin"]
    {
        bench.send(header(get("/v1/workers"), "authorization", value)).await.problem(401, "unauthorized");
    }
    let lower = header(get("/v1/workers"), "authorization", "bearer ms_a_admin");
    assert_eq!(bench.send(lower).await.status, 200);
}

#[tokio::test]
async fn revoked_key_expires_from_cache() {
    let options = IngressOptions {
        auth: AuthMode::Keys,
        key_ttl: std::time::Duration::from_millis(20),
        ..open_options()
    };
    let bench = Bench::with(options, |stores, streams| (stores, streams));
    bench.key("ms_a", "tenant-a", Role::Read).await;
    assert_eq!(bench.send(keyed(get("/v1/workers"), "ms_a")).await.status, 200);
    let tenant = millstream_model::id::TenantId::parse("tenant-a").unwrap();
    assert!(
        bench
            .stores
            .keys
            .revoke_key(
                Some(&tenant),
                &millstream_store::key_store::KeyChoice::Name("tenant-a-read".into()),
                bench.clock.now()
            )
            .await
            .unwrap()
    );
    millstream_testkit::eventually(std::time::Duration::from_secs(5), || async {
        let status = bench.send(keyed(get("/v1/workers"), "ms_a")).await.status.as_u16();
        if status == 401 { Ok(()) } else { Err(status) }
    })
    .await;
}

#[tokio::test]
async fn tenants_are_isolated() {
    let bench = with_keys().await;
    for tenant in ["a", "b"] {
        let put = keyed(yaml("/v1/definitions", ORDER), &format!("ms_{tenant}_admin"));
        assert_eq!(bench.send(put).await.status, 201);
    }
    let start = post("/v1/executions", &json!({"definition": "order", "execution_id": "o-1"}));
    assert_eq!(bench.send(keyed(start, "ms_a_submit")).await.status, 201);
    let event = || {
        let request = post("/v1/executions/o-1/events", &json!({"name": "note"}));
        header(request, "idempotency-key", "k")
    };
    let accepted = bench.send(keyed(event(), "ms_a_submit")).await;
    assert_eq!(accepted.status, 202);
    let event_path = accepted.header("location").to_owned();

    for path in ["/v1/executions/o-1", "/v1/executions/o-1/history", "/v1/executions/o-1/tail", &event_path] {
        bench.send(keyed(get(path), "ms_b_read")).await.problem(404, "not-found");
    }
    bench.send(keyed(event(), "ms_b_submit")).await.problem(404, "not-found");
    for path in [format!("{event_path}/retry"), "/v1/executions/o-1/cancel".to_owned()] {
        bench.send(keyed(bare(&Method::POST, &path), "ms_b_admin")).await.problem(404, "not-found");
    }
    for list in ["/v1/executions", "/v1/events", "/v1/events?execution_id=o-1"] {
        assert_eq!(bench.send(keyed(get(list), "ms_b_read")).await.json()["items"], json!([]), "{list}");
    }
    // The same execution id and idempotency key are free in the other tenant.
    let start = post("/v1/executions", &json!({"definition": "order", "execution_id": "o-1"}));
    assert_eq!(bench.send(keyed(start, "ms_b_submit")).await.status, 201);
    let other = bench.send(keyed(event(), "ms_b_submit")).await;
    assert_ne!(other.header("location"), event_path);
}

#[tokio::test]
async fn event_actor_is_key_name() {
    let bench = with_keys().await;
    bench.send(keyed(yaml("/v1/definitions", ORDER), "ms_a_admin")).await;
    let start = post("/v1/executions", &json!({"definition": "order", "execution_id": "o-1"}));
    bench.send(keyed(start, "ms_a_submit")).await;
    let events = bench.send(keyed(get("/v1/events"), "ms_a_read")).await.json();
    assert_eq!(events["items"][0]["actor"], "tenant-a-submit");
}

#[tokio::test]
async fn new_key_works_immediately() {
    let bench = Bench::open();
    assert_eq!(bench.get("/v1/workers").await.status, 200);
    bench.key("ms_first", "a", Role::Read).await;
    // Within the second for which the ingress caches that no key exists.
    bench.send(keyed(yaml("/v1/definitions", ORDER), "ms_first")).await.problem(403, "forbidden");
    assert_eq!(bench.send(keyed(get("/v1/definitions"), "ms_unknown")).await.status, 200);
}

#[tokio::test]
async fn first_key_closes_open_ingress() {
    let bench = Bench::open();
    assert_eq!(bench.get("/v1/workers").await.status, 200);
    bench.key("ms_first", "default", Role::Admin).await;
    millstream_testkit::eventually(std::time::Duration::from_secs(5), || async {
        let status = bench.get("/v1/workers").await.status.as_u16();
        if status == 401 { Ok(()) } else { Err(status) }
    })
    .await;
    assert_eq!(bench.send(keyed(get("/v1/workers"), "ms_first")).await.status, 200);
    let tenant = millstream_model::id::TenantId::default_tenant();
    bench
        .stores
        .keys
        .revoke_key(
            Some(&tenant),
            &millstream_store::key_store::KeyChoice::Name("default-admin".into()),
            bench.clock.now(),
        )
        .await
        .unwrap();
    bench.get("/v1/workers").await.problem(401, "unauthorized");
}

#[tokio::test]
async fn insecure_no_auth_never_overrides_key() {
    let options = IngressOptions { auth: AuthMode::InsecureNoAuth, ..open_options() };
    let bench = Bench::with(options.clone(), |stores, streams| (stores, streams));
    assert_eq!(bench.get("/v1/workers").await.status, 200);
    bench.key("ms_a", "tenant-a", Role::Read).await;
    let tenant = millstream_model::id::TenantId::parse("tenant-a").unwrap();
    // Another process over the same stores, which never saw the ingress open.
    let stores = bench.stores.clone();
    let second = Bench::with(options.clone(), move |_, streams| (stores, streams));
    second.get("/v1/workers").await.problem(401, "unauthorized");
    second.send(keyed(get("/v1/workers"), "ms_wrong")).await.problem(401, "unauthorized");
    assert_eq!(second.send(keyed(get("/v1/workers"), "ms_a")).await.status, 200);
    bench
        .stores
        .keys
        .revoke_key(
            Some(&tenant),
            &millstream_store::key_store::KeyChoice::Name("tenant-a-read".into()),
            bench.clock.now(),
        )
        .await
        .unwrap();
    for auth in [AuthMode::InsecureNoAuth, AuthMode::OpenOnLoopback] {
        let stores = bench.stores.clone();
        let options = IngressOptions { auth, ..open_options() };
        let restarted = Bench::with(options, move |_, streams| (stores, streams));
        restarted.get("/v1/workers").await.problem(401, "unauthorized");
    }
}

#[tokio::test]
async fn insecure_no_auth_checks_host_and_origin() {
    let mut options = IngressOptions { auth: AuthMode::InsecureNoAuth, ..open_options() };
    options.allowed_hosts = vec!["mill.test".to_owned()];
    let bench = Bench::with(options, |stores, streams| (stores, streams));
    assert_eq!(bench.send(header(get("/v1/workers"), "host", "mill.test")).await.status, 200);
    bench.send(header(get("/v1/workers"), "host", "evil.test")).await.problem(403, "host-refused");
    let cancel = bare(&Method::POST, "/v1/executions/o-1/cancel");
    let foreign = header(header(cancel, "host", "localhost"), "origin", "https://evil.test");
    bench.send(foreign).await.problem(403, "host-refused");
}

#[tokio::test]
async fn open_ingress_rejects_second_or_forwarded_host() {
    let bench = Bench::open();
    let twice = header(header(get("/v1/workers"), "host", "localhost"), "host", "evil.test");
    bench.send(twice).await.problem(403, "host-refused");
    let proxied = header(header(get("/v1/workers"), "host", "localhost"), "x-forwarded-for", "10.1.2.3");
    bench.send(proxied).await.problem(403, "host-refused");
}

#[tokio::test]
async fn keyed_request_may_use_any_host() {
    let bench = Bench::open();
    bench.key("ms_a", "default", Role::Read).await;
    let proxied = header(header(get("/v1/workers"), "host", "mill.example"), "x-forwarded-for", "10.1.2.3");
    assert_eq!(bench.send(keyed(proxied, "ms_a")).await.status, 200);
    bench.send(header(get("/v1/workers"), "host", "mill.example")).await.problem(401, "unauthorized");
}

#[tokio::test]
async fn open_ingress_rejects_foreign_host_and_origin() {
    let mut options = open_options();
    options.allowed_hosts = vec!["mill.test".to_owned()];
    let bench = Bench::with(options, |stores, streams| (stores, streams));
    for host in ["localhost", "localhost:7400", "127.0.0.1:1", "[::1]:7400", "mill.test", "mill.test:80"] {
        assert_eq!(bench.send(header(get("/v1/workers"), "host", host)).await.status, 200, "{host}");
    }
    for host in ["evil.test", "evil.test:7400", "localhost.evil.test", "127.0.0.1.evil.test", "10.0.0.1", ""]
    {
        bench.send(header(get("/v1/workers"), "host", host)).await.problem(403, "host-refused");
    }
}

#[tokio::test]
async fn open_ingress_serves_own_origin_only() {
    let mut options = open_options();
    options.allowed_hosts = vec!["mill.test".to_owned(), "localhost:3000".to_owned()];
    let bench = Bench::with(options, |stores, streams| (stores, streams));
    let from = |origin: &str| header(header(get("/v1/workers"), "host", "localhost:7400"), "origin", origin);
    for origin in ["http://localhost:7400", "https://LOCALHOST:7400", "http://localhost:3000"] {
        assert_eq!(bench.send(from(origin)).await.status, 200, "{origin}");
    }
    let foreign = [
        "http://localhost:9999",
        "http://localhost",
        "http://127.0.0.1:7400",
        "http://[::1]:7400",
        "http://mill.test:3000",
        "http://evil.test",
        "https://evil.test:7400",
        "null",
        "",
    ];
    for origin in foreign {
        bench.send(from(origin)).await.problem(403, "host-refused");
    }
    let two = header(from("http://localhost:7400"), "origin", "http://localhost:9999");
    bench.send(two).await.problem(403, "host-refused");
}

#[tokio::test]
async fn open_ingress_requires_host_header() {
    let door = serve(open_options()).await;
    for version in ["HTTP/1.0", "HTTP/1.1"] {
        for (host, status) in [("", "403"), ("host: \r\n", "403"), ("host: localhost\r\n", "200")] {
            let mut wire = door.connect().await;
            wire.send(&format!("GET /v1/workers {version}\r\n{host}connection: close\r\n\r\n")).await;
            let answer = wire.rest().await;
            let begin = format!("{version} {status} ");
            assert!(answer.starts_with(&begin), "{version} with {host:?}: {answer}");
        }
    }
    // With a key required, a web page cannot act in place of the client.
    door.deps
        .stores
        .keys
        .create_key(
            &NewKey::for_tenant(TenantId::default_tenant(), "k", Role::Read, Sha256::digest(b"ms_k").into()),
            door.deps.clock.now(),
        )
        .await
        .unwrap();
    millstream_testkit::eventually(Duration::from_secs(5), || async {
        let mut wire = door.connect().await;
        wire.send("GET /v1/workers HTTP/1.0\r\nauthorization: Bearer ms_k\r\n\r\n").await;
        let answer = wire.rest().await;
        if answer.starts_with("HTTP/1.0 200") { Ok(()) } else { Err(answer) }
    })
    .await;
}

#[tokio::test]
async fn unauthenticated_call_takes_no_slot() {
    let mut options = IngressOptions { auth: AuthMode::Keys, ..open_options() };
    options.limits.in_flight = 0;
    let bench = Bench::with(options, |stores, streams| (stores, streams));
    bench.key("ms_a", "tenant-a", Role::Read).await;
    bench.get("/v1/workers").await.problem(401, "unauthorized");
    bench.send(keyed(get("/v1/workers"), "ms_wrong")).await.problem(401, "unauthorized");
    bench.send(keyed(get("/v1/workers"), "ms_a")).await.problem(429, "busy");
    assert_eq!(bench.send(keyed(get("/metrics"), "ms_a")).await.status, 200);
}

#[tokio::test]
async fn key_end_closes_tail() {
    let bench = with_keys().await;
    bench.send(keyed(yaml("/v1/definitions", ORDER), "ms_a_admin")).await;
    let start = post("/v1/executions", &json!({"definition": "order", "execution_id": "o-1"}));
    bench.send(keyed(start, "ms_a_submit")).await;
    let tenant = millstream_model::id::TenantId::parse("tenant-a").unwrap();
    let brief = NewKey {
        expires_at: Some(bench.clock.now().plus(Duration::from_secs(1))),
        ..NewKey::for_tenant(tenant.clone(), "brief", Role::Read, Sha256::digest(b"ms_brief").into())
    };
    assert!(bench.stores.keys.create_key(&brief, bench.clock.now()).await.unwrap());
    let tail = |secret: &str| bench.app.clone().oneshot(keyed(get("/v1/executions/o-1/tail"), secret));
    let (revoked, expired) = (tail("ms_a_read").await.unwrap(), tail("ms_brief").await.unwrap());
    assert_eq!((revoked.status().as_u16(), expired.status().as_u16()), (200, 200));
    let which = KeyChoice::Name("tenant-a-read".to_owned());
    assert!(bench.stores.keys.revoke_key(Some(&tenant), &which, bench.clock.now()).await.unwrap());
    // The execution continues: both streams end only with the key.
    for response in [revoked, expired] {
        let seen = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        assert!(!String::from_utf8_lossy(&seen).contains("event: end"));
    }
    bench.send(keyed(get("/v1/workers"), "ms_brief")).await.problem(401, "unauthorized");
}

#[tokio::test]
async fn key_revocation_ends_long_poll() {
    let bench = with_keys().await;
    let lease = post("/v1/tasks/lease", &json!({"types": ["any"], "wait": "60s"}));
    let waiting = bench.app.clone().oneshot(keyed(lease, "ms_a_submit"));
    let tenant = millstream_model::id::TenantId::parse("tenant-a").unwrap();
    let revoking = async {
        let which = KeyChoice::Name("tenant-a-submit".to_owned());
        bench.stores.keys.revoke_key(Some(&tenant), &which, bench.clock.now()).await.unwrap()
    };
    let (response, revoked) = tokio::join!(waiting, revoking);
    assert!(revoked);
    assert_eq!(response.unwrap().status(), 401);
}

/// Counts the queries about keys.
struct CountedKeys {
    inner: Arc<dyn KeyStore>,
    lookups: Arc<AtomicUsize>,
    /// Whether the store never answers if a key exists.
    silent: bool,
}

#[async_trait::async_trait]
impl KeyStore for CountedKeys {
    async fn create_key(&self, key: &NewKey, now: Timestamp) -> StoreResult<bool> {
        self.inner.create_key(key, now).await
    }

    async fn find_keys(&self, hashes: &[KeyHash]) -> StoreResult<Vec<Option<KeyView>>> {
        self.lookups.fetch_add(1, Ordering::Relaxed);
        self.inner.find_keys(hashes).await
    }

    async fn list_keys(
        &self,
        of: &KeyFilter,
        after: Option<KeyPlace>,
        limit: usize,
    ) -> StoreResult<Vec<KeyView>> {
        self.inner.list_keys(of, after, limit).await
    }

    async fn find_key_by_id(&self, id: KeyId) -> StoreResult<Option<KeyView>> {
        self.inner.find_key_by_id(id).await
    }

    async fn revoke_key(
        &self,
        tenant: Option<&TenantId>,
        which: &KeyChoice,
        now: Timestamp,
    ) -> StoreResult<bool> {
        self.inner.revoke_key(tenant, which, now).await
    }

    async fn keys_exist(&self) -> StoreResult<bool> {
        if self.silent {
            std::future::pending::<()>().await;
        }
        self.inner.keys_exist().await
    }

    async fn rotate_key(&self, rotation: &KeyRotation, now: Timestamp) -> StoreResult<bool> {
        self.inner.rotate_key(rotation, now).await
    }

    async fn purge_dead_keys(&self, before: Timestamp, limit: usize) -> StoreResult<u64> {
        self.inner.purge_dead_keys(before, limit).await
    }

    async fn record_key_uses(&self, uses: &[(KeyHash, Timestamp)]) -> StoreResult<()> {
        self.inner.record_key_uses(uses).await
    }
}

/// An ingress that requires keys, with a counter of its key lookups.
fn with_counted_lookups() -> (Bench, Arc<AtomicUsize>) {
    let lookups = Arc::new(AtomicUsize::new(0));
    let options = IngressOptions { auth: AuthMode::Keys, ..open_options() };
    let counted = lookups.clone();
    let bench = Bench::with(options, move |mut stores, streams| {
        stores.keys = Arc::new(CountedKeys { inner: stores.keys.clone(), lookups: counted, silent: false });
        (stores, streams)
    });
    (bench, lookups)
}

#[tokio::test]
async fn key_guesses_are_rate_limited() {
    let (bench, lookups) = with_counted_lookups();
    bench.key("ms_honest", "tenant-a", Role::Read).await;
    let guess = |n: usize| {
        let secret = if n == 250 { "ms_honest".to_owned() } else { format!("ms_guess_{n}") };
        let app = bench.app.clone();
        async move { app.oneshot(keyed(get("/v1/workers"), &secret)).await.unwrap().status().as_u16() }
    };
    let answers = futures::future::join_all((0..500).map(guess)).await;
    let admitted: Vec<_> = (0..500).filter(|n| answers[*n] == 200).collect();
    assert_eq!(admitted, [250]);
    assert!(answers.iter().filter(|status| **status == 401).count() == 499);
    assert!(lookups.load(Ordering::Relaxed) <= 10, "{lookups:?}");
}

#[tokio::test]
async fn repeated_wrong_key_is_cached() {
    let (bench, lookups) = with_counted_lookups();
    bench.key("ms_honest", "tenant-a", Role::Read).await;
    for _ in 0..20 {
        bench.send(keyed(get("/v1/workers"), "ms_wrong")).await.problem(401, "unauthorized");
    }
    assert_eq!(lookups.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn probes_do_not_wait_for_store() {
    let bench = Bench::with(open_options(), |mut stores, streams| {
        let (inner, lookups) = (stores.keys.clone(), Arc::default());
        stores.keys = Arc::new(CountedKeys { inner, lookups, silent: true });
        (stores, streams)
    });
    let asked = tokio::time::Instant::now();
    assert_eq!(bench.get("/healthz").await.status, 200);
    assert!(asked.elapsed() < Duration::from_secs(1), "on a stopped clock");
    // Other calls time out: whether they need a key is unknown.
    bench.get("/v1/workers").await.problem(503, "store-unavailable");
    let foreign = header(get("/healthz"), "host", "evil.example");
    bench.send(foreign).await.problem(403, "host-refused");
}
