//! Quotas: the usage of one tenant, the rejections beyond it, and the room that is left for others.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use bytes::Bytes;
use futures::StreamExt;
use millstream_ingress::{AuthMode, IngressLimits, IngressOptions};
use millstream_model::action_queue::ActionQueue;
use millstream_model::attempt::ActionFailure;
use millstream_model::error_class::ErrorClass;
use millstream_model::id::{Name, TenantId, WorkerId};
use millstream_model::quota::{QuotaName, QuotaSet, QuotaSettings, QuotaValue};
use millstream_model::raw::RawJson;
use millstream_model::status::Role;
use millstream_store::action_store::{SettleOutcome, Settlement};
use millstream_store::execution_store::LeaseGrant;
use millstream_testkit::eventually;
use millstream_testkit::eventually::PATIENCE;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::bench::{Answer, Bench, ORDER, get, header, open_options, post, with_type, yaml};

pub(crate) fn at_most(quotas: &[(QuotaName, u64)]) -> QuotaSettings {
    let mut set = QuotaSet::default();
    for (name, most) in quotas {
        set = set.with(*name, QuotaValue::AtMost(*most));
    }
    QuotaSettings { every_tenant: set, ..QuotaSettings::default() }
}

/// An ingress with the tenants `noisy` and `quiet`, each with a key.
pub(crate) async fn two_tenants(limits: IngressLimits, quotas: QuotaSettings) -> Bench {
    let options = IngressOptions { auth: AuthMode::Keys, limits, quotas, ..open_options() };
    let bench = Bench::with(options, |stores, streams| (stores, streams));
    for tenant in ["noisy", "quiet"] {
        bench.key(&format!("ms_{tenant}"), tenant, Role::Admin).await;
    }
    bench
}

pub(crate) fn of(tenant: &str, request: Request<Body>) -> Request<Body> {
    header(request, "authorization", &format!("Bearer ms_{tenant}"))
}

pub(crate) async fn order(bench: &Bench, tenant: &str, id: &str) -> Answer {
    bench.send(of(tenant, yaml("/v1/definitions", ORDER))).await;
    bench.send(of(tenant, post("/v1/executions", &json!({"definition": "order", "execution_id": id})))).await
}

/// The usage of a quota by the tenant, as the API shows it.
pub(crate) async fn used(bench: &Bench, tenant: &str, name: &str) -> u64 {
    let path = format!("/v1/tenants/{tenant}/usage");
    let answer = bench.send(of(tenant, get(&path))).await.json();
    let items = answer["items"].as_array().unwrap();
    items.iter().find(|item| item["name"] == name).unwrap()["used"].as_u64().unwrap()
}

async fn until_used(bench: &Bench, tenant: &str, name: &str, count: u64) {
    eventually(PATIENCE, || async {
        let now = used(bench, tenant, name).await;
        if now == count { Ok(()) } else { Err(format!("{tenant} uses {now} of {name}")) }
    })
    .await;
}

pub(crate) fn refused(answer: &Answer, status: u16, kind: &str, quota: &str) -> Value {
    let problem = answer.problem(status, kind);
    assert_eq!(problem["quota"]["name"], quota, "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains(quota), "{problem}");
    problem
}

#[tokio::test]
async fn tails_are_shared_between_tenants() {
    let bench =
        two_tenants(IngressLimits { tails: 4, ..IngressLimits::default() }, QuotaSettings::default()).await;
    for tenant in ["noisy", "quiet"] {
        assert_eq!(order(&bench, tenant, "o-1").await.status, 201);
    }
    let tail = |tenant| of(tenant, get("/v1/executions/o-1/tail"));
    let mut open = Vec::new();
    for _ in 0..3 {
        let response = bench.app.clone().oneshot(tail("noisy")).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        open.push(response);
    }
    let answer = bench.send(tail("noisy")).await;
    refused(&answer, 429, "quota-throttled", "streams");
    assert_eq!(answer.header("retry-after"), "1");
    let response = bench.app.clone().oneshot(tail("quiet")).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    drop(open);
    until_used(&bench, "noisy", "streams", 0).await;
}

#[tokio::test]
async fn long_polls_are_shared_between_tenants() {
    let bench =
        two_tenants(IngressLimits { waits: 4, ..IngressLimits::default() }, QuotaSettings::default()).await;
    let lease = |tenant, wish: Value| of(tenant, post("/v1/tasks/lease", &wish));
    let patient = || json!({"types": ["x"], "wait": "60s"});
    let polls: Vec<_> =
        (0..3).map(|_| tokio::spawn(bench.app.clone().oneshot(lease("noisy", patient())))).collect();
    until_used(&bench, "noisy", "waits", 3).await;
    refused(&bench.send(lease("noisy", patient())).await, 429, "quota-throttled", "waits");
    assert_eq!(bench.send(lease("quiet", json!({"types": ["x"]}))).await.status, 200);
    polls.iter().for_each(tokio::task::JoinHandle::abort);
}

/// A start whose event waits for an external worker.
const ERRAND: &str = r#"
name: errand
initial: new
states: { new: { on: { go: { do: [run] }, ran: { to: done } } }, done: { final: true } }
actions:
  run: { task: { type: run }, timeout: 1m, on_success: ran }
"#;

/// Ready tasks of the tenant `default`.
async fn errands(bench: &Bench, count: usize) {
    assert_eq!(bench.send(yaml("/v1/definitions", ERRAND)).await.status, 201);
    for n in 0..count {
        let start =
            json!({"definition": "errand", "execution_id": format!("e-{n}"), "events": [{"name": "go"}]});
        assert_eq!(bench.post("/v1/executions", &start).await.status, 201);
        bench.decide(&format!("e-{n}")).await;
    }
}

async fn lease(bench: &Bench, wait: u32) -> Vec<Value> {
    let answer = bench.post("/v1/tasks/lease", &json!({"types": ["run"], "max": 5, "wait": wait})).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["tasks"].as_array().unwrap().clone()
}

async fn complete(bench: &Bench, task: &Value) -> Answer {
    let key = task["key"].as_str().unwrap().replace('/', "%2F");
    bench.post(&format!("/v1/tasks/{key}/complete"), &json!({"token": task["token"]})).await
}

fn open_with(quotas: QuotaSettings) -> Bench {
    Bench::with(IngressOptions { quotas, ..open_options() }, |stores, streams| (stores, streams))
}

async fn used_by_default(bench: &Bench, name: &str) -> u64 {
    let answer = bench.get("/v1/tenants/default/usage").await.json();
    let items = answer["items"].as_array().unwrap();
    items.iter().find(|item| item["name"] == name).unwrap()["used"].as_u64().unwrap()
}

#[tokio::test]
async fn task_lease_quota_frees_on_outcome() {
    let bench = open_with(at_most(&[(QuotaName::TaskLeases, 2)]));
    errands(&bench, 5).await;
    let held = lease(&bench, 10).await;
    assert_eq!(held.len(), 2);
    assert!(lease(&bench, 0).await.is_empty(), "one that does not wait gets none");
    assert_eq!(used_by_default(&bench, "task_leases").await, 2);
    let why = bench.get("/v1/tasks/default%2Fe-4%2F2%2Frun/why").await.json();
    assert!(why["reason"].as_str().unwrap().contains("task_leases = 2"), "{why}");
    let wish = json!({"types": ["run"], "max": 5, "wait": "60s"});
    let waiting = tokio::spawn(bench.app.clone().oneshot(post("/v1/tasks/lease", &wish)));
    assert_eq!(complete(&bench, &held[0]).await.status, 200);
    let answer = Answer::of(waiting.await.unwrap().unwrap()).await.json();
    assert_eq!(answer["tasks"].as_array().unwrap().len(), 1, "{answer}");
    assert_eq!(used_by_default(&bench, "task_leases").await, 2);
}

#[tokio::test]
async fn action_explains_blocking_quota() {
    let bench = open_with(QuotaSettings::default());
    errands(&bench, 1).await;
    let (worker, now) = (WorkerId::parse("w").unwrap(), bench.clock.now());
    let queue =
        ActionQueue::of_task(&TenantId::default_tenant(), &Name::parse("run").unwrap(), &Default::default());
    let grant = LeaseGrant { slots: 1, ttl: Duration::from_secs(60), queues: [queue].into() };
    let leased = bench.stores.actions.lease(&worker, &grant, now).await.unwrap().remove(0);
    let message = "the tenant is at its quota open_executions = 2 (from the settings)".to_owned();
    let error = RawJson::from_value(&ActionFailure { class: ErrorClass::Quota, message, status: None });
    let outcome = SettleOutcome::Postponed { at: now.plus(Duration::from_secs(60)), error: Some(error) };
    let settlement = Settlement { lease: leased.lease, event_id: leased.event_id, outcome };
    bench.stores.actions.settle_actions(&worker, &[settlement], &grant.with_slots(0), now).await.unwrap();
    let why = bench.get("/v1/tasks/default%2Fe-0%2F2%2Frun/why").await.json();
    let reason = why["reason"].as_str().unwrap();
    assert!(reason.starts_with("the next attempt, number 1,"), "{why}");
    assert!(reason.ends_with("the tenant is at its quota open_executions = 2 (from the settings)"), "{why}");
}

#[tokio::test]
async fn task_outcome_bypasses_exhausted_quotas() {
    let quotas =
        [(QuotaName::OpenExecutions, 1), (QuotaName::EventsPerSecond, 1), (QuotaName::EventsBurst, 2)];
    let bench = open_with(at_most(&quotas));
    errands(&bench, 1).await;
    let held = lease(&bench, 10).await;
    let refusal = loop {
        let answer = bench.post("/v1/executions/e-0/events", &json!({"name": "go"})).await;
        if answer.status != 202 {
            break answer;
        }
    };
    refused(&refusal, 429, "quota-throttled", "events_per_second");
    let start = bench.post("/v1/executions", &json!({"definition": "errand"})).await;
    refused(&start, 403, "quota-exceeded", "open_executions");
    let beat = post(&path_of(&held[0], "heartbeat"), &json!({"token": held[0]["token"]}));
    assert_eq!(bench.send(beat).await.status, 200);
    assert_eq!(complete(&bench, &held[0]).await.status, 200);
}

fn path_of(task: &Value, act: &str) -> String {
    format!("/v1/tasks/{}/{act}", task["key"].as_str().unwrap().replace('/', "%2F"))
}

/// Sends reads until the tenant is throttled for this quota.
async fn until_refused(bench: &Bench, quota: &str) {
    loop {
        let answer = bench.send(of("noisy", get("/v1/definitions"))).await;
        if answer.status != 200 {
            refused(&answer, 429, "quota-throttled", quota);
            return;
        }
        tokio::task::yield_now().await;
    }
}

fn note(id: &str, key: &str) -> Request<Body> {
    let request = post(&format!("/v1/executions/{id}/events"), &json!({"name": "note"}));
    header(of("noisy", request), "idempotency-key", key)
}

fn cancel(tenant: &str, id: &str) -> Request<Body> {
    of(tenant, post(&format!("/v1/executions/{id}/cancel"), &json!({})))
}

/// What a throttled tenant may still do: repeat a request, and cancel.
async fn repeats_and_cancels_pass(bench: &Bench, first: &Answer, quota: &str) {
    until_refused(bench, quota).await;
    let repeat = bench.send(note("o-1", "k-1")).await;
    assert_eq!((repeat.status.as_u16(), &repeat.json()["event_id"]), (202, &first.json()["event_id"]));
    until_refused(bench, quota).await;
    assert_eq!(bench.send(cancel("noisy", "o-1")).await.status, 202);
    let mut n = 0;
    let refusal = loop {
        let answer = bench.send(note("o-1", &format!("new-{n}"))).await;
        if answer.status != 202 {
            break answer;
        }
        n += 1;
    };
    refused(&refusal, 429, "quota-throttled", quota);
}

#[tokio::test]
async fn rate_limited_tenant_may_cancel() {
    let quotas = at_most(&[(QuotaName::RequestsPerSecond, 2), (QuotaName::RequestsBurst, 20)]);
    let bench = two_tenants(IngressLimits::default(), quotas).await;
    assert_eq!(order(&bench, "noisy", "o-1").await.status, 201);
    let first = bench.send(note("o-1", "k-1")).await;
    assert_eq!(first.status, 202);
    repeats_and_cancels_pass(&bench, &first, "requests_per_second").await;
}

#[tokio::test]
async fn tenant_at_flight_share_may_cancel() {
    let bench =
        two_tenants(IngressLimits { in_flight: 16, ..IngressLimits::default() }, QuotaSettings::default())
            .await;
    assert_eq!(order(&bench, "noisy", "o-1").await.status, 201);
    let first = bench.send(note("o-1", "k-1")).await;
    queue(&bench, "noisy").await;
    let imports: Vec<_> =
        (0..12).map(|_| tokio::spawn(bench.app.clone().oneshot(dripping("noisy")))).collect();
    until_used(&bench, "noisy", "body_bytes_in_flight", 48 << 20).await;
    repeats_and_cancels_pass(&bench, &first, "requests_in_flight").await;
    assert_eq!(bench.send(of("quiet", get("/v1/definitions"))).await.status, 200, "the reserve has an end");
    imports.iter().for_each(tokio::task::JoinHandle::abort);
}

/// An import that receives no more bytes.
fn dripping(tenant: &str) -> Request<Body> {
    let line = Bytes::from_static(b"{\"payload\": 1}\n");
    let stream = futures::stream::iter([Ok::<_, std::io::Error>(line)]).chain(futures::stream::pending());
    of(tenant, with_type("/v1/queues/q/items", "application/x-ndjson", Body::from_stream(stream)))
}

pub(crate) async fn queue(bench: &Bench, tenant: &str) {
    let mut request = of(tenant, post("/v1/queues/q", &json!({})));
    *request.method_mut() = Method::PUT;
    let answer = bench.send(request).await;
    assert!(answer.status.is_success(), "{answer:?}");
}

#[tokio::test]
async fn slow_imports_leave_bytes_for_others() {
    let limits = IngressLimits { body_bytes_in_flight: 16 << 20, ..IngressLimits::default() };
    let bench = two_tenants(limits, QuotaSettings::default()).await;
    queue(&bench, "noisy").await;
    let imports: Vec<_> =
        (0..3).map(|_| tokio::spawn(bench.app.clone().oneshot(dripping("noisy")))).collect();
    until_used(&bench, "noisy", "body_bytes_in_flight", 12 << 20).await;
    refused(&bench.send(dripping("noisy")).await, 429, "quota-throttled", "body_bytes_in_flight");
    assert_eq!(order(&bench, "quiet", "o-1").await.status, 201);
    imports.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn endless_import_ends_at_quota() {
    let bench = two_tenants(IngressLimits::default(), at_most(&[(QuotaName::ImportDuration, 100)])).await;
    queue(&bench, "noisy").await;
    let request = dripping("noisy");
    refused(&bench.send(request).await, 403, "quota-exceeded", "import_duration");
}

#[tokio::test]
async fn request_slots_are_shared_between_tenants() {
    let bench =
        two_tenants(IngressLimits { in_flight: 4, ..IngressLimits::default() }, QuotaSettings::default())
            .await;
    queue(&bench, "noisy").await;
    let imports: Vec<_> =
        (0..3).map(|_| tokio::spawn(bench.app.clone().oneshot(dripping("noisy")))).collect();
    while bench.send(of("noisy", get("/v1/definitions"))).await.status == 200 {
        tokio::task::yield_now().await;
    }
    let answer = bench.send(of("noisy", get("/v1/definitions"))).await;
    refused(&answer, 429, "quota-throttled", "requests_in_flight");
    assert_eq!(bench.send(of("quiet", get("/v1/definitions"))).await.status, 200);
    imports.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn executor_quota_keeps_registered_executors() {
    let bench = two_tenants(IngressLimits::default(), at_most(&[(QuotaName::Executors, 3)])).await;
    let register = |tenant: &str, n: usize| {
        let executor = json!({"name": format!("e{n}"), "address": "http://127.0.0.1:1", "capacity": 1});
        of(tenant, post("/v1/executors", &executor))
    };
    for n in 0..3 {
        assert_eq!(bench.send(register("noisy", n)).await.status, 200);
    }
    for n in 3..6 {
        refused(&bench.send(register("noisy", n)).await, 403, "quota-exceeded", "executors");
    }
    assert_eq!(bench.send(register("noisy", 0)).await.status, 200, "a registered executor may renew");
    assert_eq!(bench.send(register("quiet", 0)).await.status, 200);
    assert_eq!(used(&bench, "noisy", "executors").await, 3);
}

#[tokio::test]
async fn definition_quota_allows_repeats() {
    let bench = two_tenants(IngressLimits::default(), at_most(&[(QuotaName::Definitions, 2)])).await;
    let put =
        |n: u32| of("noisy", yaml("/v1/definitions", &ORDER.replace("total: 10", &format!("total: {n}"))));
    assert_eq!(bench.send(put(1)).await.status, 201);
    assert_eq!(bench.send(put(2)).await.status, 201);
    refused(&bench.send(put(3)).await, 403, "quota-exceeded", "definitions");
    assert_eq!(bench.send(put(2)).await.status, 200);
}

#[tokio::test]
async fn attempt_time_quota_is_named() {
    let bench = two_tenants(IngressLimits::default(), QuotaSettings::default()).await;
    let definition = "{name: x, initial: a, states: {a: {on: {go: {to: b, do: [act]}}}, b: {final: true}}, \
        actions: {act: {http: {url: 'http://h.example/'}, timeout: 36500d}}}";
    let problem = bench.send(of("noisy", yaml("/v1/definitions", definition))).await.problem(422, "invalid");
    assert_eq!(problem["problems"][0]["path"], "actions.act.timeout", "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("max_action_timeout = 1d"), "{problem}");
}

#[tokio::test]
async fn open_execution_quota_answers_repeats() {
    let bench = two_tenants(IngressLimits::default(), at_most(&[(QuotaName::OpenExecutions, 2)])).await;
    assert_eq!(order(&bench, "noisy", "o-1").await.status, 201);
    let keyed = || {
        let request = post("/v1/executions", &json!({"definition": "order"}));
        header(of("noisy", request), "idempotency-key", "k-1")
    };
    let first = bench.send(keyed()).await;
    assert_eq!(first.status, 201);
    refused(&order(&bench, "noisy", "o-3").await, 403, "quota-exceeded", "open_executions");
    assert_eq!(order(&bench, "noisy", "o-1").await.status, 200, "a repeat by id");
    let again = bench.send(keyed()).await;
    assert_eq!(again.status, 200, "a repeat by key");
    assert_eq!(again.json()["execution_id"], first.json()["execution_id"]);
    assert_eq!(order(&bench, "quiet", "o-1").await.status, 201);
    let event = bench.send(of("noisy", post("/v1/executions/o-1/events", &json!({"name": "note"})))).await;
    assert_eq!(event.status, 202, "open executions continue");
    assert_eq!(used(&bench, "noisy", "open_executions").await, 2);
}

#[tokio::test]
async fn event_rate_limit_answers_repeats() {
    let quotas = at_most(&[(QuotaName::EventsPerSecond, 1), (QuotaName::EventsBurst, 2)]);
    let bench = two_tenants(IngressLimits::default(), quotas).await;
    assert_eq!(order(&bench, "noisy", "o-1").await.status, 201);
    let note = |key: &str| {
        let request = post("/v1/executions/o-1/events", &json!({"name": "note"}));
        header(of("noisy", request), "idempotency-key", key)
    };
    let first = bench.send(note("k-1")).await;
    assert_eq!(first.status, 202);
    let mut last = bench.send(note("k-2")).await;
    for n in 3..100 {
        if last.status == 429 {
            break;
        }
        last = bench.send(note(&format!("k-{n}"))).await;
    }
    refused(&last, 429, "quota-throttled", "events_per_second");
    assert!(!last.header("retry-after").is_empty());
    let repeat = bench.send(note("k-1")).await;
    assert_eq!(repeat.status, 202);
    assert_eq!(repeat.json()["event_id"], first.json()["event_id"]);
    let many =
        bench.send(of("noisy", post("/v1/events", &json!([{"execution_id": "o-1", "name": "note"}])))).await;
    refused(&many, 429, "quota-throttled", "events_per_second");
}

#[tokio::test]
async fn repeats_have_own_rate_limit() {
    let quotas = at_most(&[(QuotaName::RequestsPerSecond, 1), (QuotaName::RequestsBurst, 3)]);
    let bench = two_tenants(IngressLimits::default(), quotas).await;
    assert_eq!(order(&bench, "noisy", "o-1").await.status, 201);
    let mut answers = Vec::new();
    while answers.len() < 100 && answers.last() != Some(&429) {
        let note = of("noisy", post("/v1/executions/o-1/events", &json!({"name": "note"})));
        answers.push(bench.send(header(note, "idempotency-key", "k-1")).await.status.as_u16());
    }
    assert!(answers.starts_with(&[202, 202, 202, 202]) && answers.ends_with(&[429]), "{answers:?}");
}

#[tokio::test]
async fn request_rate_limit_is_per_tenant() {
    let bench = two_tenants(IngressLimits::default(), at_most(&[(QuotaName::RequestsPerSecond, 2)])).await;
    let list = || of("noisy", get("/v1/definitions"));
    let mut answer = bench.send(list()).await;
    while answer.status == 200 {
        answer = bench.send(list()).await;
    }
    refused(&answer, 429, "quota-throttled", "requests_per_second");
    assert_eq!(bench.send(of("quiet", get("/v1/definitions"))).await.status, 200);
}

fn put_quota(path: &str, quota: &Value) -> Request<Body> {
    let mut request = post(path, quota);
    *request.method_mut() = Method::PUT;
    request
}

#[tokio::test]
async fn set_quota_shows_source_and_applies() {
    let bench = Bench::with_order().await;
    let quota = json!({"open_executions": 1, "streams": "1/2", "max_action_timeout": "1h"});
    let set = bench.send(put_quota("/v1/tenants/default/quota", &quota)).await;
    assert_eq!(set.status, 200, "{set:?}");
    let shown = bench.get("/v1/tenants/default/quota").await.json();
    assert_eq!(shown, set.json());
    let item =
        |name: &str| shown["items"].as_array().unwrap().iter().find(|item| item["name"] == name).cloned();
    assert_eq!(
        item("open_executions").unwrap(),
        json!({"name": "open_executions", "value": 1, "source": "row"})
    );
    assert_eq!(item("waits").unwrap(), json!({"name": "waits", "value": "3/4", "source": "built_in"}));
    bench.start("o-1").await;
    let answer = eventually(PATIENCE, || async {
        let answer = bench.post("/v1/executions", &json!({"definition": "order"})).await;
        if answer.status == 201 { Err("the quota is not in force") } else { Ok(answer) }
    })
    .await;
    refused(&answer, 403, "quota-exceeded", "open_executions");
}

#[tokio::test]
async fn invalid_quota_lists_faults() {
    let bench = Bench::open();
    let wrong = json!({"stream": 1, "devices": "some"});
    let problem = bench.send(put_quota("/v1/tenants/default/quota", &wrong)).await.problem(422, "invalid");
    assert_eq!(problem["problems"].as_array().unwrap().len(), 2, "{problem}");
    assert!(problem.to_string().contains("did you mean"), "{problem}");
}

#[tokio::test]
async fn tenant_reads_own_quotas_only() {
    let bench = two_tenants(IngressLimits::default(), QuotaSettings::default()).await;
    for path in ["quota", "usage"] {
        let own = format!("/v1/tenants/noisy/{path}");
        assert_eq!(bench.send(of("noisy", get(&own))).await.status, 200);
        bench.send(of("quiet", get(&own))).await.problem(404, "not-found");
    }
    let set = of("noisy", put_quota("/v1/tenants/noisy/quota", &json!({})));
    bench.send(set).await.problem(403, "forbidden");
}
