//! Quotas that count rows and bytes of a tenant: devices, runs, keys, queues, people, items of queues, stored bytes.

use axum::body::Body;
use axum::http::{Method, Request};
use millstream_ingress::IngressLimits;
use millstream_model::quota::QuotaName;
use millstream_model::status::Role;
use serde_json::{Value, json};

use crate::bench::{Answer, Bench, ORDER, header, post, with_type, yaml};
use crate::quotas::{at_most, of, order, queue, refused, two_tenants, used};

fn device(tenant: &str, id: &str) -> Request<Body> {
    let mut request = of(tenant, post(&format!("/v1/devices/{id}"), &json!({"capabilities": ["render"]})));
    *request.method_mut() = Method::PUT;
    request
}

#[tokio::test]
async fn device_quota_counts_other_processes() {
    let quotas = at_most(&[(QuotaName::Devices, 4)]);
    let first = two_tenants(IngressLimits::default(), quotas.clone()).await;
    let auth = millstream_ingress::AuthMode::Keys;
    let options = millstream_ingress::IngressOptions { auth, quotas, ..crate::bench::open_options() };
    let second = crate::bench::Bench::with(options, |_, streams| (first.stores.clone(), streams));
    for (bench, id) in [(&first, "d1"), (&first, "d2"), (&second, "d3"), (&second, "d4")] {
        assert!(bench.send(device("noisy", id)).await.status.is_success(), "{id}");
    }
    refused(&first.send(device("noisy", "d5")).await, 403, "quota-exceeded", "devices");
}

#[tokio::test]
async fn device_quota_keeps_known_devices() {
    let bench = two_tenants(IngressLimits::default(), at_most(&[(QuotaName::Devices, 2)])).await;
    for id in ["d1", "d2"] {
        assert!(bench.send(device("noisy", id)).await.status.is_success());
    }
    refused(&bench.send(device("noisy", "d3")).await, 403, "quota-exceeded", "devices");
    assert!(bench.send(device("noisy", "d1")).await.status.is_success(), "a known device");
    let heartbeat = of("noisy", post("/v1/devices/d1/heartbeat", &json!({})));
    assert!(bench.send(heartbeat).await.status.is_success());
    assert!(bench.send(device("quiet", "d3")).await.status.is_success());
    assert_eq!(used(&bench, "noisy", "devices").await, 2);
}

async fn run(bench: &Bench, tenant: &str, id: &str) -> Answer {
    bench.send(of(tenant, post("/v1/runs", &json!({"run_id": id, "kind": "render"})))).await
}

#[tokio::test]
async fn open_run_quota_answers_repeats() {
    let bench = two_tenants(IngressLimits::default(), at_most(&[(QuotaName::OpenRuns, 2)])).await;
    for id in ["r1", "r2"] {
        assert_eq!(run(&bench, "noisy", id).await.status, 201);
    }
    refused(&run(&bench, "noisy", "r3").await, 403, "quota-exceeded", "open_runs");
    assert_eq!(run(&bench, "noisy", "r1").await.status, 200, "an existing run");
    assert_eq!(run(&bench, "quiet", "r3").await.status, 201);
    assert_eq!(used(&bench, "noisy", "open_runs").await, 2);
}

#[tokio::test]
async fn run_counts_against_event_rate() {
    let rate = [(QuotaName::EventsPerSecond, 1), (QuotaName::EventsBurst, 2)];
    let bench = two_tenants(IngressLimits::default(), at_most(&rate)).await;
    let mut made = 0;
    let refusal = loop {
        let answer = run(&bench, "noisy", &format!("r{made}")).await;
        if answer.status != 201 {
            break answer;
        }
        made += 1;
        assert!(made < 100, "runs have no rate");
    };
    refused(&refusal, 429, "quota-throttled", "events_per_second");
    assert_eq!(run(&bench, "noisy", "r0").await.status, 200, "an existing run");
    assert_eq!(run(&bench, "quiet", "r0").await.status, 201);
}

#[tokio::test]
async fn key_quota_exempts_operator() {
    let bench = two_tenants(IngressLimits::default(), at_most(&[(QuotaName::Keys, 3)])).await;
    bench.key("ms_operator", "any", Role::Operator).await;
    let wish = |name: &str| json!({"name": name, "role": "read"});
    let create = |name: &str| of("noisy", post("/v1/keys", &wish(name)));
    let first = bench.send(create("a")).await;
    assert_eq!(first.status, 201);
    assert_eq!(bench.send(create("b")).await.status, 201);
    refused(&bench.send(create("c")).await, 403, "quota-exceeded", "keys");
    let id = first.json()["key_id"].as_str().unwrap().to_owned();
    let rotate = of("noisy", post(&format!("/v1/keys/{id}/rotate"), &json!({})));
    refused(&bench.send(rotate).await, 403, "quota-exceeded", "keys");
    let mut named = wish("c");
    named["tenant"] = json!("noisy");
    assert_eq!(bench.send(of("operator", post("/v1/keys", &named))).await.status, 201);
    assert_eq!(bench.send(of("quiet", post("/v1/keys", &wish("c")))).await.status, 201);
    assert_eq!(used(&bench, "quiet", "keys").await, 2);
}

fn put(tenant: &str, path: &str, body: &Value) -> Request<Body> {
    let mut request = of(tenant, post(path, body));
    *request.method_mut() = Method::PUT;
    request
}

#[tokio::test]
async fn queue_and_people_quotas_apply() {
    let quotas = [(QuotaName::Queues, 2), (QuotaName::People, 2)];
    let bench = two_tenants(IngressLimits::default(), at_most(&quotas)).await;
    for (kind, body) in [("queues", json!({})), ("people", json!({"skills": ["weld"]}))] {
        let send = |tenant: &str, id: &str| bench.send(put(tenant, &format!("/v1/{kind}/{id}"), &body));
        for id in ["a", "b"] {
            assert!(send("noisy", id).await.status.is_success(), "{kind}");
        }
        refused(&send("noisy", "c").await, 403, "quota-exceeded", kind);
        assert_eq!(send("noisy", "a").await.status, 200, "{kind}: a known one");
        assert!(send("quiet", "c").await.status.is_success(), "{kind}");
        assert_eq!(used(&bench, "noisy", kind).await, 2);
    }
    let pause = of("noisy", post("/v1/people/stranger/pause", &json!({})));
    refused(&bench.send(pause).await, 403, "quota-exceeded", "people");
}

async fn import(bench: &Bench, tenant: &str, ids: &[&str], payload: &Value) -> Answer {
    let line = |id: &&str| format!("{}\n", json!({"item_id": id, "payload": payload}));
    let lines: String = ids.iter().map(line).collect();
    bench.send(of(tenant, with_type("/v1/queues/q/items", "application/x-ndjson", Body::from(lines)))).await
}

#[tokio::test]
async fn item_quota_ends_import() {
    let bench = two_tenants(IngressLimits::default(), at_most(&[(QuotaName::QueueItems, 2)])).await;
    for tenant in ["noisy", "quiet"] {
        queue(&bench, tenant).await;
    }
    let payload = json!({"n": 1});
    assert_eq!(import(&bench, "noisy", &["i1", "i2"], &payload).await.status, 200);
    refused(&import(&bench, "noisy", &["i3"], &payload).await, 403, "quota-exceeded", "queue_items");
    let again = import(&bench, "noisy", &["i1", "i2"], &payload).await;
    assert_eq!((again.status.as_u16(), &again.json()["repeated"]), (200, &json!(2)));
    assert_eq!(import(&bench, "quiet", &["i3"], &payload).await.status, 200);
    assert_eq!(used(&bench, "noisy", "queue_items").await, 2);
}

#[tokio::test]
async fn stored_byte_quota_answers_repeats() {
    let bench = two_tenants(IngressLimits::default(), at_most(&[(QuotaName::StoredBytes, 64 * 1024)])).await;
    assert_eq!(order(&bench, "noisy", "o-1").await.status, 201);
    queue(&bench, "noisy").await;
    let long = json!({"text": "x".repeat(128 * 1024)});
    let note = |key: &str, payload: &Value| {
        let request = post("/v1/executions/o-1/events", &json!({"name": "note", "payload": payload}));
        header(of("noisy", request), "idempotency-key", key)
    };
    let first = bench.send(note("k-1", &json!({"n": 1}))).await;
    assert_eq!(first.status, 202);
    refused(&bench.send(note("k-2", &long)).await, 403, "quota-exceeded", "stored_bytes");
    let start = json!({"definition": "order", "input": long});
    let started = bench.send(of("noisy", post("/v1/executions", &start))).await;
    refused(&started, 403, "quota-exceeded", "stored_bytes");
    refused(&import(&bench, "noisy", &["i1"], &long).await, 403, "quota-exceeded", "stored_bytes");
    let again = bench.send(note("k-1", &json!({"n": 1}))).await;
    assert_eq!((again.status.as_u16(), &again.json()["event_id"]), (202, &first.json()["event_id"]));
    assert_eq!(bench.send(of("quiet", yaml("/v1/definitions", ORDER))).await.status, 201);
    let start = bench.send(of("quiet", post("/v1/executions", &json!({"definition": "order"})))).await;
    assert_eq!(start.status, 201);
}
