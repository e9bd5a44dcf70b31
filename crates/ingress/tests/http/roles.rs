//! The role table: every HTTP operation and every gRPC method, with a key of every role, of the tenant that
//! owns the data and of another one. The rows come from the tables that the layers check; there is no list of
//! exceptions.
//!
//! Here: which calls a key admits. For the effects of admitted calls see `roles_http.rs` and `roles_grpc.rs`.

use axum::body::Body;
use axum::http::Request;
use millstream_ingress::role_table::{self, CallAccess};
use millstream_model::permission::Permission;
use millstream_model::status::Role;
use prost::Message;
use prost_types::FileDescriptorSet;
use serde_json::json;
use tower::ServiceExt;

use crate::bench::{Bench, get, post};
use crate::roles_data::{OWNER, OwnedData, STRANGER, keyed, secret};
use crate::roles_http::TableRequest;

/// Status and problem kind; a stream is not read to its end.
async fn refused(bench: &Bench, request: Request<Body>) -> Option<u16> {
    let status = bench.app.clone().oneshot(request).await.unwrap().status().as_u16();
    [401, 403].contains(&status).then_some(status)
}

#[tokio::test]
async fn http_operations_admit_permitted_roles_only() {
    let data = OwnedData::furnished().await;
    let bench = &data.bench;
    let calls = role_table::http_access();
    assert!(calls.len() > 90, "{}", calls.len());
    for CallAccess { call, needs } in &calls {
        let expected = needs.map(|_| 401);
        let request = TableRequest::of(&data, call);
        assert_eq!(refused(bench, request.unkeyed()).await, expected, "{call} without a key");
        let wrong = keyed(request.unkeyed(), "ms_unknown");
        assert_eq!(refused(bench, wrong).await, expected, "{call} with an unknown key");
    }
    // Deletions come last, so that the other calls find their data.
    let (deletes, others): (Vec<_>, Vec<_>) =
        calls.iter().partition(|access| access.call.starts_with("DELETE"));
    for tenant in [OWNER, STRANGER] {
        for CallAccess { call, needs } in others.iter().chain(&deletes) {
            let request = TableRequest::of(&data, call);
            for role in Role::ALL {
                let permitted = needs.is_none_or(|needs| role.permits(needs));
                let refused = refused(bench, request.by(tenant, *role)).await;
                assert_eq!(refused, (!permitted).then_some(403), "{call} as {role} of {tenant}");
            }
        }
    }
}

/// The path of every method in the descriptors.
fn described() -> Vec<String> {
    let sets = [millstream_rpc::proto::FILE_DESCRIPTOR_SET, tonic_health::pb::FILE_DESCRIPTOR_SET];
    let mut methods = Vec::new();
    for set in sets {
        for file in FileDescriptorSet::decode(set).unwrap().file {
            for service in &file.service {
                let method = |method: &prost_types::MethodDescriptorProto| {
                    format!("/{}.{}/{}", file.package(), service.name(), method.name())
                };
                methods.extend(service.method.iter().map(method));
            }
        }
    }
    methods
}

/// The `grpc-status` of a call with an empty message that is rejected immediately: a key is checked before a
/// message is read.
async fn call_code(bench: &Bench, path: &str, key: Option<&str>) -> Option<String> {
    let request = Request::post(path).header("content-type", "application/grpc").body(Body::from(vec![0; 5]));
    let request = key.into_iter().fold(request.unwrap(), keyed);
    let response = bench.app.clone().oneshot(request).await.unwrap();
    response.headers().get("grpc-status").map(|value| value.to_str().unwrap().to_owned())
}

const UNAUTHENTICATED: &str = "16";
const PERMISSION_DENIED: &str = "7";
const UNIMPLEMENTED: &str = "12";

#[tokio::test]
async fn grpc_methods_admit_permitted_roles_only() {
    let data = OwnedData::furnished().await;
    let bench = &data.bench;
    let table = role_table::grpc_access();
    for path in described() {
        let admin = secret(OWNER, Role::Admin);
        let served = call_code(bench, &path, Some(&admin)).await.as_deref() != Some(UNIMPLEMENTED);
        assert_eq!(
            table.iter().any(|access| access.call == path),
            served,
            "{path} is in the table if it is served"
        );
    }
    for CallAccess { call, needs } in &table {
        let bare = call_code(bench, call, None).await;
        assert_eq!(
            bare.as_deref() == Some(UNAUTHENTICATED),
            needs.is_some(),
            "{call} without a key: {bare:?}"
        );
        for tenant in [OWNER, STRANGER] {
            for role in Role::ALL {
                let code = call_code(bench, call, Some(&secret(tenant, *role))).await;
                let permitted = needs.is_none_or(|needs| role.permits(needs));
                assert_ne!(code.as_deref(), Some(UNAUTHENTICATED), "{call} as {role}");
                assert_eq!(
                    code.as_deref() != Some(PERMISSION_DENIED),
                    permitted,
                    "{call} as {role}: {code:?}"
                );
            }
        }
    }
}

#[test]
fn role_table_matches_documentation() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/SECURITY-ROLES.md");
    let written = std::fs::read_to_string(path).unwrap_or_default();
    let (begin, end) =
        ("<!-- begin of the generated tables -->\n\n", "\n<!-- end of the generated tables -->");
    let table = written.split_once(begin).and_then(|(_, rest)| rest.split_once(end)).map(|(table, _)| table);
    let expected = role_table::render_role_tables();
    if table != Some(expected.as_str()) && std::env::var_os("MILLSTREAM_WRITE_ROLE_TABLE").is_some() {
        let (before, rest) = written.split_once(begin).unwrap();
        let (_, after) = rest.split_once(end).unwrap();
        std::fs::write(path, format!("{before}{begin}{expected}{end}{after}")).unwrap();
        return;
    }
    assert!(
        table == Some(expected.as_str()),
        "docs/SECURITY-ROLES.md is not up to date; run this test with MILLSTREAM_WRITE_ROLE_TABLE=1"
    );
}

#[tokio::test]
async fn executor_refusal_names_required_role() {
    let data = OwnedData::furnished().await;
    let bench = &data.bench;
    let executor = json!({"name": "mine", "address": "http://h:1", "capacity": 1});
    let answer = bench.send(keyed(post("/v1/executors", &executor), &secret(OWNER, Role::Submit))).await;
    let detail = answer.problem(403, "forbidden")["detail"].to_string();
    assert!(detail.contains("--role executor") && detail.contains("admin, executor"), "{detail}");
    for role in [Role::Executor, Role::Admin] {
        let answer = bench.send(keyed(post("/v1/executors", &executor), &secret(OWNER, role))).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
}

#[tokio::test]
async fn operator_refusal_explains_missing_tenant() {
    let data = OwnedData::furnished().await;
    let bench = &data.bench;
    let answer = bench.send(keyed(get("/v1/executions"), &secret(OWNER, Role::Operator))).await;
    let detail = answer.problem(403, "forbidden")["detail"].to_string();
    assert!(detail.contains("belongs to no tenant"), "{detail}");
    assert!(!Role::Operator.permits(Permission::ReadData));
}

#[tokio::test]
async fn fleet_metrics_require_operator() {
    let data = OwnedData::furnished().await;
    let bench = &data.bench;
    let full = bench.send(keyed(get("/metrics"), &secret(OWNER, Role::Operator))).await;
    assert!(full.text.contains("millstream_up 1") && full.text.contains("millstream_build_info"), "{full:?}");
    for role in [Role::Read, Role::Admin] {
        let part = bench.send(keyed(get("/metrics"), &secret(OWNER, role))).await;
        assert_eq!(part.status, 200);
        assert!(part.text.starts_with("# Series that count all tenants need a key with the role operator."));
        let allowed = [
            "millstream_build_info",
            "millstream_uptime_seconds",
            "process_start_time_seconds",
            "process_resident_memory_bytes",
        ];
        for line in part.text.lines().filter(|line| !line.starts_with('#')) {
            assert!(allowed.iter().any(|name| line.starts_with(name)), "{line}");
        }
    }
}

#[tokio::test]
async fn worker_hosts_require_operator() {
    let data = OwnedData::furnished().await;
    let bench = &data.bench;
    let worker = millstream_model::id::WorkerId::parse("host-7-4711-0badcafe").unwrap();
    let beat = millstream_store::worker_store::WorkerHeartbeat {
        worker,
        started_at: bench.clock.now(),
        lanes: vec![0],
        in_flight: 0,
        version: "1".to_owned(),
        calls: Vec::new(),
    };
    bench.stores.workers.record_worker_heartbeat(&beat, bench.clock.now()).await.unwrap();
    let seen = bench.send(keyed(get("/v1/workers"), &secret(OWNER, Role::Operator))).await;
    assert_eq!(seen.json()["items"][0]["worker_id"], "host-7-4711-0badcafe");
    for role in [Role::Read, Role::Admin, Role::Submit] {
        let answer = bench.send(keyed(get("/v1/workers"), &secret(OWNER, role))).await;
        assert_eq!(answer.status, 200);
        assert!(!answer.text.contains("host-7") && !answer.text.contains("4711"), "{answer:?}");
    }
}
