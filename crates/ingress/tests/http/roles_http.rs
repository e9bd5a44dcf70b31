//! Every HTTP operation on existing data: the owner's roles reach it; another tenant's roles neither see nor
//! change it.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use futures::StreamExt;
use millstream_ingress::role_table::{self, CallAccess};
use millstream_model::id::TenantId;
use millstream_model::permission::Permission;
use millstream_model::status::Role;
use millstream_model::time::Timestamp;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::roles_data::{OWNER, OwnedData, STRANGER, keyed, secret};

/// A request for an operation of the table, for the owner's data.
pub(crate) struct TableRequest {
    method: String,
    path: String,
    body: String,
}

impl TableRequest {
    pub(crate) fn of(data: &OwnedData, call: &str) -> Self {
        let (method, template) = call.split_once(' ').unwrap();
        let mut path: Vec<String> = Vec::new();
        for part in template.split('/') {
            let filled = match part.starts_with('{') {
                true => data.id(path.last().unwrap()).replace('/', "%2F"),
                false => part.to_owned(),
            };
            path.push(filled);
        }
        Self { method: method.to_owned(), path: path.join("/"), body: body_of(data, call).to_string() }
    }

    /// The same for unused ids.
    fn for_the_absent(&self, data: &OwnedData) -> Self {
        let (path, body) = (data.as_absent(&self.path), data.as_absent(&self.body));
        Self { method: self.method.clone(), path, body }
    }

    pub(crate) fn by(&self, tenant: &str, role: Role) -> Request<Body> {
        keyed(self.unkeyed(), &secret(tenant, role))
    }

    pub(crate) fn unkeyed(&self) -> Request<Body> {
        let request = Request::builder().method(self.method.as_str()).uri(&self.path);
        let request = request.header("content-type", "application/json").header("prefer", "wait=0");
        request.body(Body::from(self.body.clone())).unwrap()
    }

    /// The parts of the request that an answer may repeat.
    fn asked(&self) -> String {
        format!("{} {}", self.path.replace("%2F", "/"), self.body)
    }
}

/// The body that the operation requires; most require none.
fn body_of(data: &OwnedData, call: &str) -> Value {
    let (device, token) = (data.id("devices"), data.seat_token);
    match call.split_once("/v1/").map_or(call, |(_, path)| path) {
        "definitions" => {
            json!({"name": "zz-new", "initial": "begun", "states": {"begun": {"on": {"go": {}}}}})
        }
        "executions" => json!({"definition": data.id("definitions"), "input": {"order": "zz-new"}}),
        "executions/{execution_id}/events" => json!({"name": "zz-note"}),
        "events" => json!([{"execution_id": data.id("executions"), "name": "zz-note"}]),
        "signals" => json!({"correlation": data.id("executions"), "name": "zz-note"}),
        "incidents/{incident_id}/skip" => json!({"result": null}),
        "tenants/{tenant}/quota" => json!({"waits": 5}),
        "keys" => json!({"name": "zz-new", "role": "read", "tenant": OWNER}),
        "tasks/lease" => json!({"types": ["zz-resize"]}),
        "tasks/{key}/heartbeat" | "tasks/{key}/complete" => json!({"token": data.task_token}),
        "tasks/{key}/fail" => json!({"token": data.task_token, "message": "broken"}),
        "tasks/complete" => json!([{"key": data.id("tasks"), "token": data.task_token}]),
        "graphs" => json!({"name": "new", "nodes": [{"id": "zz-node"}]}),
        "graphs/{graph_id}/edits" => json!({"expected_revision": 1, "edits": [{"delete": "zz-later"}]}),
        "graphs/{graph_id}/nodes/{node}/result" => json!({"token": data.node_token, "status": "PASS"}),
        "graphs/{graph_id}/nodes/{node}/progress" => json!({"token": data.node_token, "progress": 1}),
        "executors" => json!({"name": "zz-new", "address": "http://127.0.0.1:1", "capacity": 1}),
        "runs" => json!({"kind": "zz-film"}),
        "runs/{run_id}/claim" | "runs/{run_id}/assign" => json!({"device": device}),
        "runs/{run_id}/progress" => json!({"device": device, "token": token, "step": 1, "total": 2}),
        "runs/{run_id}/fail" => json!({"device": device, "token": token, "message": "broken"}),
        "runs/{run_id}/accept"
        | "runs/{run_id}/decline"
        | "runs/{run_id}/start"
        | "runs/{run_id}/complete"
        | "runs/{run_id}/release"
        | "runs/{run_id}/abort"
        | "runs/{run_id}/offline_claim" => json!({"device": device, "token": token}),
        "queues/{queue}/items" => json!({"item_id": "zz-new", "payload": 1}),
        "assignments/{assignment_id}/submit" => json!({"person": "ann", "answer": 1}),
        "assignments/next"
        | "assignments/{assignment_id}/start"
        | "assignments/{assignment_id}/skip"
        | "assignments/{assignment_id}/heartbeat" => json!({"person": "ann"}),
        "assignments/{assignment_id}/reassign" => json!({"to": "bob"}),
        _ => json!({}),
    }
}

/// An answer, or the first message of an event stream.
struct Shown {
    status: StatusCode,
    media: String,
    text: String,
}

impl Shown {
    fn is_stream(&self) -> bool {
        self.media.starts_with("text/event-stream")
    }
}

async fn shown(data: &OwnedData, request: Request<Body>) -> Shown {
    let response = data.bench.app.clone().oneshot(request).await.unwrap();
    let media = response.headers().get("content-type").map_or("", |value| value.to_str().unwrap());
    let (status, media) = (response.status(), media.to_owned());
    let mut frames = response.into_body().into_data_stream();
    let mut bytes = Vec::new();
    let stream = media.starts_with("text/event-stream");
    // An event stream does not end: its first message is enough.
    while !(stream && String::from_utf8_lossy(&bytes).contains("data:")) {
        let frame = tokio::time::timeout(Duration::from_secs(60), frames.next()).await;
        let Some(frame) = frame.expect("a message within a minute") else { break };
        bytes.extend_from_slice(&frame.unwrap());
    }
    Shown { status, media, text: String::from_utf8_lossy(&bytes).into_owned() }
}

/// Data of the tenant, as opposed to data of the process.
fn concerns_a_tenant(needs: Option<Permission>) -> bool {
    needs.is_some_and(|needs| !matches!(needs, Permission::SeeStatus | Permission::SeeFleet))
}

fn is_read(call: &str) -> bool {
    call.starts_with("GET ")
}

#[tokio::test]
async fn http_readers_see_own_data() {
    let data = OwnedData::furnished().await;
    let own_tenant = format!(r#""tenant":"{OWNER}""#);
    let (mut reads, mut wrong) = (0, Vec::new());
    for CallAccess { call, needs } in role_table::http_access() {
        if !is_read(&call) || !concerns_a_tenant(needs) {
            continue;
        }
        for role in Role::ALL.iter().filter(|role| role.permits(needs.unwrap())) {
            let request = TableRequest::of(&data, &call);
            let shown = shown(&data, request.by(OWNER, *role)).await;
            let own = data.leak(&shown.text, "").is_some() || shown.text.contains(&own_tenant);
            if shown.status != 200 || !own {
                wrong.push(format!("{call} as {role}: {} {}", shown.status, shown.text));
            }
            reads += 1;
        }
    }
    assert!(wrong.is_empty(), "these show none of the tenant's data:\n{}", wrong.join("\n"));
    assert!(reads > 100, "{reads}");
}

#[tokio::test]
async fn http_writers_reach_own_data() {
    let mut wrong = Vec::new();
    for CallAccess { call, needs } in role_table::http_access() {
        if is_read(&call) || !concerns_a_tenant(needs) {
            continue;
        }
        for role in Role::ALL.iter().filter(|role| role.permits(needs.unwrap())) {
            // Fresh data: the previous role may have ended or deleted the target of the call.
            let data = OwnedData::furnished().await;
            let answer = shown(&data, TableRequest::of(&data, &call).by(OWNER, *role)).await;
            // A conflict with the current state proves that the call found its data.
            let reached = answer.status.is_success() || answer.status == StatusCode::CONFLICT;
            if !reached {
                wrong.push(format!("{call} as {role}: {} {}", answer.status, answer.text));
            }
        }
    }
    assert!(wrong.is_empty(), "these do not reach the tenant's data:\n{}", wrong.join("\n"));
}

/// All data that the owner's admin can read, by call, without what the engine records as time passes: the last
/// use of keys, and the presence of the owner's own worker. Executors are read from the store, because the list
/// omits those without a recent heartbeat.
pub(crate) async fn owned(data: &OwnedData) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for CallAccess { call, needs } in role_table::http_access() {
        let kept = matches!(needs, Some(Permission::ReadData | Permission::ManageKeys));
        if call == "GET /v1/executors" {
            let owner = TenantId::parse(OWNER).unwrap();
            let rows = data.bench.stores.executors.list_executors_of(&owner, Timestamp::EPOCH).await;
            all.insert(call, format!("{:?}", rows.unwrap()));
        } else if is_read(&call) && kept {
            let shown = shown(data, TableRequest::of(data, &call).by(OWNER, Role::Admin)).await;
            assert_eq!(shown.status, 200, "{call}: {}", shown.text);
            all.insert(call, if shown.is_stream() { shown.text } else { without_presence(&shown.text) });
        }
    }
    all
}

fn without_presence(text: &str) -> String {
    let mut document: Value = serde_json::from_str(text).unwrap();
    for item in document["items"].as_array_mut().into_iter().flatten() {
        item.as_object_mut().unwrap().remove("last_used_at");
    }
    if let Some(connected) = document["connected"].as_array_mut() {
        connected.retain(|worker| worker["worker"] != "zz-worker");
    }
    document.to_string()
}

/// The parts by which a caller can distinguish answers: the status and, of a problem, all but the request id.
fn told_apart_by(data: &OwnedData, shown: &Shown) -> String {
    if shown.status.is_success() {
        return shown.status.to_string();
    }
    let mut problem: Value = serde_json::from_str(&shown.text).unwrap();
    problem.as_object_mut().unwrap().remove("instance");
    let named = problem.to_string().replace(r#"\"ann\""#, r#"\"eve\""#);
    data.as_absent(&named.replace(r#"\"default\""#, r#"\"absent\""#))
}

#[tokio::test]
async fn http_operations_isolate_tenants() {
    let data = OwnedData::furnished().await;
    let (mut before, mut wrong) = (owned(&data).await, Vec::new());
    let mut calls = role_table::http_access();
    calls.retain(|access| concerns_a_tenant(access.needs));
    // Reads find nothing before the stranger has created data of its own; calls that name an id create it
    // last.
    let order = ["GET", "POST", "DELETE", "PUT"];
    calls.sort_by_key(|access| order.iter().position(|method| access.call.starts_with(method)));
    for CallAccess { call, needs } in calls {
        // An operator belongs to no tenant and is a stranger to none.
        for role in Role::ALL.iter().filter(|role| role.permits(needs.unwrap()) && role.has_tenant()) {
            let request = TableRequest::of(&data, &call);
            let shown = shown(&data, request.by(STRANGER, *role)).await;
            let leak = data.leak(&shown.text, &request.asked());
            // The answer is the same as for an unused id.
            let absent = self::shown(&data, request.for_the_absent(&data).by(STRANGER, *role)).await;
            let exists = told_apart_by(&data, &shown) != told_apart_by(&data, &absent);
            let found = is_read(&call) && call.contains('{') && shown.status != 404;
            if leak.is_some() || exists || found || shown.is_stream() {
                wrong.push(format!("{call} as {role} shows {leak:?}: {} {}", shown.status, shown.text));
            }
        }
        if is_read(&call) {
            continue;
        }
        let after = owned(&data).await;
        for (read, text) in after.iter().filter(|(read, text)| before.get(*read) != Some(*text)) {
            wrong.push(format!("{call} changed {read}: {:?} became {text}", before.get(read)));
        }
        before = after;
    }
    assert!(wrong.is_empty(), "another tenant:\n{}", wrong.join("\n"));
}
