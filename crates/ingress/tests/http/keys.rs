//! `/v1/keys`: an admin manages the keys of its tenant, an operator those of every tenant; no key issues a key with
//! more rights than its own.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use millstream_ingress::{AuthMode, IngressDeps, IngressOptions};
use millstream_model::id::TenantId;
use millstream_model::status::Role;
use millstream_store::key_store::{KeyFilter, KeyRotation, NewKey};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tower::ServiceExt;

use crate::bench::{Answer, Bench, ORDER, deps, get, header, open_options, post, yaml};
use crate::schema::mismatches;
use crate::wire::serve_on;

const OPERATOR: &str = "ms_operator";

/// With an admin in each of two tenants, and an operator.
async fn managed() -> Bench {
    let options = IngressOptions { auth: AuthMode::Keys, ..open_options() };
    let bench = Bench::with(options, |stores, streams| (stores, streams));
    bench.key("ms_a", "tenant-a", Role::Admin).await;
    bench.key("ms_b", "tenant-b", Role::Admin).await;
    bench.key(OPERATOR, "tenant-a", Role::Operator).await;
    bench
}

async fn as_key(bench: &Bench, secret: &str, request: Request<Body>) -> Answer {
    bench.send(header(request, "authorization", &format!("Bearer {secret}"))).await
}

async fn create(bench: &Bench, secret: &str, body: Value) -> Answer {
    as_key(bench, secret, post("/v1/keys", &body)).await
}

async fn rotate(bench: &Bench, secret: &str, id: &str, body: Value) -> Answer {
    as_key(bench, secret, post(&format!("/v1/keys/{id}/rotate"), &body)).await
}

async fn revoke(bench: &Bench, secret: &str, id: &str) -> Answer {
    as_key(bench, secret, Request::delete(format!("/v1/keys/{id}")).body(Body::empty()).unwrap()).await
}

async fn listed(bench: &Bench, secret: &str, query: &str) -> Vec<Value> {
    let answer = as_key(bench, secret, get(&format!("/v1/keys{query}"))).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["items"].as_array().unwrap().clone()
}

#[track_caller]
fn issued(answer: &Answer) -> (String, String) {
    assert_eq!(answer.status, 201, "{answer:?}");
    let key = answer.json();
    (key["key_id"].as_str().unwrap().to_owned(), key["key"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn created_key_shows_secret_once() {
    let bench = managed().await;
    let document = millstream_ingress::openapi::document();
    let answer = create(&bench, "ms_a", json!({"name": "ci", "role": "read", "expires_in": "1h"})).await;
    let (id, secret) = issued(&answer);
    assert_eq!(answer.header("cache-control"), "no-store");
    assert_eq!(mismatches(&document, "IssuedApiKey", &answer.json()), Vec::<String>::new());
    assert_eq!(as_key(&bench, &secret, get("/v1/executions")).await.status, 200);
    as_key(&bench, &secret, yaml("/v1/definitions", ORDER)).await.problem(403, "forbidden");

    let page = as_key(&bench, "ms_a", get("/v1/keys")).await;
    assert_eq!(mismatches(&document, "ApiKeyPage", &page.json()), Vec::<String>::new());
    assert!(!page.text.contains(&secret) && !page.text.contains("\"key\""), "{page:?}");
    let keys = listed(&bench, "ms_a", "").await;
    let shown = keys.iter().find(|key| key["key_id"] == *id).unwrap();
    assert_eq!(
        (&shown["name"], &shown["role"], &shown["tenant"], &shown["status"], &shown["created_by"]),
        (&json!("ci"), &json!("read"), &json!("tenant-a"), &json!("current"), &json!("tenant-a-admin"))
    );
    assert!(shown["expires_at"].is_string() && shown["revoked_at"].is_null(), "{shown}");
    create(&bench, "ms_a", json!({"name": "ci", "role": "read"})).await.problem(409, "conflict");
}

#[tokio::test]
async fn admin_manages_own_tenant_keys_only() {
    let bench = managed().await;
    let (id, _) = issued(&create(&bench, "ms_b", json!({"name": "theirs", "role": "read"})).await);
    let tenants: Vec<_> = listed(&bench, "ms_a", "").await.iter().map(|key| key["tenant"].clone()).collect();
    assert_eq!(tenants, ["tenant-a"]);
    as_key(&bench, "ms_a", get("/v1/keys?tenant=tenant-b")).await.problem(404, "not-found");
    let foreign = json!({"name": "x", "role": "read", "tenant": "tenant-b"});
    create(&bench, "ms_a", foreign).await.problem(404, "not-found");
    rotate(&bench, "ms_a", &id, json!({})).await.problem(404, "not-found");
    revoke(&bench, "ms_a", &id).await.problem(404, "not-found");
    assert_eq!(listed(&bench, "ms_b", "?tenant=tenant-b").await.len(), 2);
    let operators = listed(&bench, OPERATOR, "").await;
    let operator = operators.iter().find(|key| key["role"] == "operator").unwrap();
    revoke(&bench, "ms_a", operator["key_id"].as_str().unwrap()).await.problem(404, "not-found");
}

#[tokio::test]
async fn operator_manages_keys_of_any_tenant() {
    let bench = managed().await;
    let nameless = create(&bench, OPERATOR, json!({"name": "boss", "role": "admin"})).await;
    assert_eq!(nameless.problem(422, "invalid")["problems"][0]["path"], "tenant");
    let of_operator = json!({"name": "ops-2", "role": "operator", "tenant": "tenant-c"});
    create(&bench, OPERATOR, of_operator).await.problem(422, "invalid");
    issued(&create(&bench, OPERATOR, json!({"name": "ops-2", "role": "operator"})).await);
    let new = json!({"name": "boss", "role": "admin", "tenant": "tenant-c"});
    let (id, secret) = issued(&create(&bench, OPERATOR, new).await);
    assert_eq!(listed(&bench, &secret, "").await.len(), 1);
    assert_eq!(listed(&bench, OPERATOR, "?tenant=tenant-c").await[0]["key_id"], *id);
    let all = listed(&bench, OPERATOR, "").await;
    assert_eq!(all.len(), 5, "{all:?}");
    let (_, successor) = issued(&rotate(&bench, OPERATOR, &id, json!({})).await);
    assert_eq!(as_key(&bench, &successor, get("/v1/executions")).await.status, 200);
    assert_eq!(revoke(&bench, OPERATOR, &id).await.status, 200);
    as_key(&bench, &secret, get("/v1/executions")).await.problem(401, "unauthorized");
}

#[tokio::test]
async fn key_cannot_escalate_its_role() {
    let bench = managed().await;
    create(&bench, "ms_a", json!({"name": "x", "role": "operator"})).await.problem(403, "forbidden");
    for role in Role::ALL.iter().filter(|role| !matches!(role, Role::Admin | Role::Operator)) {
        let secret = format!("ms_a_{role}");
        bench.key(&secret, "tenant-a", *role).await;
        create(&bench, &secret, json!({"name": "x", "role": "read"})).await.problem(403, "forbidden");
    }
    let (_, brief) =
        issued(&create(&bench, "ms_a", json!({"name": "b", "role": "admin", "expires_in": "1h"})).await);
    let longer = json!({"name": "x", "role": "read", "expires_in": "2h"});
    create(&bench, &brief, longer).await.problem(403, "forbidden");
    let inherits = create(&bench, &brief, json!({"name": "x", "role": "read"})).await.json();
    let own = listed(&bench, "ms_a", "").await.iter().find(|key| key["name"] == "b").unwrap().clone();
    assert_eq!(inherits["expires_at"], own["expires_at"]);
    let admins = listed(&bench, "ms_a", "").await;
    let eternal = admins.iter().find(|key| key["name"] == "tenant-a-admin").unwrap();
    rotate(&bench, &brief, eternal["key_id"].as_str().unwrap(), json!({})).await.problem(403, "forbidden");
}

#[tokio::test]
async fn rotated_key_works_until_overlap_ends() {
    let bench = managed().await;
    let (id, old) = issued(&create(&bench, "ms_a", json!({"name": "ci", "role": "read"})).await);
    let answer = rotate(&bench, "ms_a", &id, json!({"overlap": "2s"})).await;
    let (_, new) = issued(&answer);
    assert_eq!((&answer.json()["name"], &answer.json()["role"]), (&json!("ci"), &json!("read")));
    let works = |secret: String| async { as_key(&bench, &{ secret }, get("/v1/executions")).await.status };
    assert_eq!((works(old.clone()).await.as_u16(), works(new.clone()).await.as_u16()), (200, 200));
    let status = |keys: Vec<Value>| keys.iter().find(|key| key["key_id"] == *id).unwrap()["status"].clone();
    assert_eq!(status(listed(&bench, "ms_a", "").await), "rotated");
    rotate(&bench, "ms_a", &id, json!({})).await.problem(409, "conflict");
    millstream_testkit::eventually(Duration::from_secs(10), || async {
        let status = works(old.clone()).await.as_u16();
        if status == 401 { Ok(()) } else { Err(status) }
    })
    .await;
    assert_eq!(works(new).await, 200);
    assert_eq!(status(listed(&bench, "ms_a", "").await), "expired");
}

#[tokio::test]
async fn revoked_key_is_rejected_immediately() {
    let bench = managed().await;
    let (id, secret) = issued(&create(&bench, "ms_a", json!({"name": "ci", "role": "read"})).await);
    assert_eq!(as_key(&bench, &secret, get("/v1/executions")).await.status, 200);
    let revoked = revoke(&bench, "ms_a", &id).await;
    assert_eq!((revoked.status.as_u16(), &revoked.json()["status"]), (200, &json!("revoked")));
    as_key(&bench, &secret, get("/v1/executions")).await.problem(401, "unauthorized");
    let again = revoke(&bench, "ms_a", &id).await.json();
    assert_eq!(again["revoked_at"], revoked.json()["revoked_at"], "the first time stays");
    let keys = listed(&bench, "ms_a", "").await;
    assert_eq!(keys.iter().find(|key| key["key_id"] == *id).unwrap()["status"], "revoked");
    rotate(&bench, "ms_a", &id, json!({})).await.problem(409, "conflict");
    for id in ["", "x", "00000000000000000000000g", "000000000000000000000000"] {
        let answer = revoke(&bench, "ms_a", id).await;
        assert_eq!(answer.status, 404, "{id}: {answer:?}");
    }
}

#[tokio::test]
async fn remotely_revoked_key_cannot_issue() {
    let bench = managed().await;
    assert_eq!(as_key(&bench, "ms_a", get("/v1/keys")).await.status, 200);
    let tenant = TenantId::parse("tenant-a").unwrap();
    let own = bench.stores.keys.list_keys(&KeyFilter::Tenant(tenant.clone()), None, 1).await.unwrap();
    let choice = millstream_store::key_store::KeyChoice::Id(own[0].id());
    assert!(bench.stores.keys.revoke_key(Some(&tenant), &choice, bench.clock.now()).await.unwrap());
    // This process caches the key for a few seconds more.
    assert_eq!(as_key(&bench, "ms_a", get("/v1/keys")).await.status, 200);
    create(&bench, "ms_a", json!({"name": "x", "role": "admin"})).await.problem(401, "unauthorized");
}

#[tokio::test]
async fn remotely_expired_key_cannot_issue() {
    let bench = managed().await;
    assert_eq!(as_key(&bench, "ms_a", get("/v1/keys")).await.status, 200);
    let tenant = TenantId::parse("tenant-a").unwrap();
    let own = bench.stores.keys.list_keys(&KeyFilter::Tenant(tenant.clone()), None, 1).await.unwrap();
    let (now, hash) = (bench.clock.now(), Sha256::digest(b"ms_next").into());
    let successor = NewKey::for_tenant(tenant, own[0].name.clone(), Role::Admin, hash);
    let rotation = KeyRotation { predecessor: own[0].hash, expires_at: now, successor };
    assert!(bench.stores.keys.rotate_key(&rotation, now).await.unwrap());
    // This process caches the key for a few seconds more.
    assert_eq!(as_key(&bench, "ms_a", get("/v1/keys")).await.status, 200);
    create(&bench, "ms_a", json!({"name": "x", "role": "admin"})).await.problem(401, "unauthorized");
}

#[tokio::test]
async fn open_ingress_issues_no_key() {
    let bench = Bench::open();
    assert_eq!(bench.get("/v1/keys").await.json()["items"], json!([]));
    let body = json!({"name": "x", "role": "admin"});
    let detail = bench.post("/v1/keys", &body).await.problem(403, "forbidden")["detail"].to_string();
    assert!(detail.contains("millstream keys create"), "{detail}");
    assert!(!bench.stores.keys.keys_exist().await.unwrap());
}

#[tokio::test]
async fn bound_key_names_its_subject() {
    let bench = managed().await;
    let missing = create(&bench, "ms_a", json!({"name": "ann", "role": "work"})).await;
    assert_eq!(missing.problem(422, "invalid")["problems"][0]["path"], "person");
    let unfitting = json!({"name": "ann", "role": "read", "person": "ann"});
    create(&bench, "ms_a", unfitting).await.problem(422, "invalid");
    let work = create(&bench, "ms_a", json!({"name": "ann", "role": "work", "person": "ann"})).await;
    assert_eq!(work.json()["bound_to"], "ann");
    let (id, _) = issued(&work);
    assert_eq!(rotate(&bench, "ms_a", &id, json!({})).await.json()["bound_to"], "ann");
    let device = create(&bench, "ms_a", json!({"name": "d", "role": "device", "device": "d-1"})).await;
    assert_eq!(device.json()["bound_to"], "d-1");
}

#[tokio::test]
async fn invalid_key_request_lists_faults() {
    let bench = managed().await;
    let bad = json!({"name": "a#b", "role": "boss", "tenant": "T", "expires_in": "0s", "secret": "ms_mine"});
    let faults = create(&bench, "ms_a", bad).await.problem(422, "invalid")["problems"].clone();
    let paths: Vec<_> = faults.as_array().unwrap().iter().map(|fault| fault["path"].clone()).collect();
    assert_eq!(paths, ["name", "role", "tenant", "expires_in", "secret"]);
    let large = json!({"name": "x".repeat(17_000), "role": "read"});
    create(&bench, "ms_a", large.clone()).await.problem(413, "too-large");
    let (id, _) = issued(&create(&bench, "ms_a", json!({"name": "x", "role": "read"})).await);
    rotate(&bench, "ms_a", &id, large).await.problem(413, "too-large");
    rotate(&bench, "ms_a", &id, json!({"overlap": "soon"})).await.problem(422, "invalid");
}

#[tokio::test]
async fn keys_are_paged() {
    let bench = managed().await;
    for n in 0..4 {
        issued(&create(&bench, "ms_a", json!({"name": format!("k{n}"), "role": "read"})).await);
    }
    let (mut names, mut query) = (Vec::new(), "?limit=2".to_owned());
    loop {
        let page = as_key(&bench, "ms_a", get(&format!("/v1/keys{query}"))).await.json();
        let items = page["items"].as_array().unwrap();
        assert!(items.len() <= 2);
        names.extend(items.iter().map(|key| key["name"].as_str().unwrap().to_owned()));
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        query = format!("?limit=2&cursor={cursor}");
    }
    names.sort();
    assert_eq!(names, ["k0", "k1", "k2", "k3", "tenant-a-admin"]);
}

#[tokio::test]
async fn rotated_key_keeps_its_lifetime() {
    let bench = managed().await;
    let now = bench.clock.now();
    let brief = NewKey {
        expires_at: Some(now.plus(Duration::from_secs(3600))),
        ..NewKey::for_tenant(
            TenantId::parse("tenant-a").unwrap(),
            "brief",
            Role::Admin,
            Sha256::digest(b"ms_brief").into(),
        )
    };
    assert!(bench.stores.keys.create_key(&brief, now).await.unwrap());
    let keys = listed(&bench, "ms_brief", "").await;
    let id = keys.iter().find(|key| key["name"] == "brief").unwrap()["key_id"].as_str().unwrap().to_owned();
    rotate(&bench, "ms_brief", &id, json!({"expires_in": "2h"})).await.problem(403, "forbidden");
    let empty = Request::post(format!("/v1/keys/{id}/rotate")).body(Body::empty()).unwrap();
    let renewed = as_key(&bench, "ms_brief", empty).await;
    let (_, secret) = issued(&renewed);
    assert!(renewed.json()["expires_at"].is_string());
    let request = header(get("/v1/keys"), "authorization", &format!("Bearer {secret}"));
    assert_eq!(bench.app.clone().oneshot(request).await.unwrap().status(), 200);
}

#[tokio::test]
async fn shutdown_records_last_key_use() {
    let bench = managed().await;
    let (id, secret) = issued(&create(&bench, "ms_a", json!({"name": "x", "role": "read"})).await);
    let last_use = async || {
        let keys = listed(&bench, "ms_a", "").await;
        keys.into_iter().find(|key| key["key_id"] == id).unwrap()["last_used_at"].clone()
    };
    assert_eq!(last_use().await, Value::Null);
    let deps = IngressDeps { stores: bench.stores.clone(), ..deps() };
    let door = serve_on(deps, IngressOptions { auth: AuthMode::Keys, ..open_options() }).await;
    let authorization = format!("authorization: Bearer {secret}\r\n");
    let answer = door.request("GET", "/v1/workers", &authorization, "").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    door.shutdown.cancel();
    door.ended.await.unwrap().unwrap();
    assert!(last_use().await.is_string());
}
