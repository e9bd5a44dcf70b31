//! Every gRPC method on existing data: the owner's roles reach it; another tenant's roles neither see nor
//! change it.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::http::{HeaderMap, Request};
use millstream_ingress::role_table::{self, CallAccess};
use millstream_model::status::Role;
use millstream_rpc::proto::act_on_run_request::Act;
use millstream_rpc::proto::node_edit::Kind;
use millstream_rpc::proto::update_node_request::Update;
use millstream_rpc::proto::{
    ActOnRunRequest, AttemptRef, CancelWorkflowRequest, CompleteTaskRequest, CreateWorkflowRequest, Executor,
    FailTaskRequest, GetNodeLogsRequest, GetNodeRequest, GetWorkflowRequest, HeartbeatDeviceRequest,
    HeartbeatTaskRequest, LeaseTasksRequest, ListExecutorsRequest, ListWorkflowsRequest, Node, NodeEdit,
    NodeProgress, RegisterDeviceRequest, RegisterExecutorRequest, RetireExecutorRequest, RunAccept, RunBeat,
    UpdateNodeRequest, UpdateWorkflowRequest, WatchAssignmentsRequest, WatchWorkflowRequest, Workflow,
    WorkflowMetadata,
};
use prost::Message as _;
use tower::ServiceExt;

use crate::engine::Engine;
use crate::roles_data::{OWNER, OwnedData, STRANGER, keyed, secret};
use crate::roles_http::owned;

const OK: &str = "0";
const NOT_FOUND: &str = "5";
const FAILED_PRECONDITION: &str = "9";

fn method(call: &str) -> &str {
    call.rsplit('/').next().unwrap()
}

/// The message of a call for the owner's data.
fn message_of(data: &OwnedData, call: &str) -> Vec<u8> {
    let id = |segment: &str| data.id(segment).to_owned();
    let (workflow_id, node_id, device_id) = (id("graphs"), id("nodes"), id("devices"));
    let (key, token) = (id("tasks"), data.task_token);
    match method(call) {
        "CreateWorkflow" => {
            let metadata = WorkflowMetadata { name: "new".to_owned(), ..Default::default() };
            let nodes = vec![Node { id: node_id, ..Default::default() }];
            let workflow = Workflow { metadata: Some(metadata), nodes, ..Default::default() };
            CreateWorkflowRequest { workflow: Some(workflow) }.encode_to_vec()
        }
        "GetWorkflow" => {
            GetWorkflowRequest { workflow_id, page_size: 10, ..Default::default() }.encode_to_vec()
        }
        "ListWorkflows" => ListWorkflowsRequest::default().encode_to_vec(),
        "UpdateWorkflow" => {
            let edit = NodeEdit { kind: Kind::Delete.into(), node: None, node_id: "zz-later".to_owned() };
            UpdateWorkflowRequest { workflow_id, edits: vec![edit], expected_revision: 1 }.encode_to_vec()
        }
        "GetNode" => GetNodeRequest { workflow_id, node_id }.encode_to_vec(),
        "UpdateNode" => {
            let of = AttemptRef { token: data.node_token, attempt: 1, ..Default::default() };
            let progress = NodeProgress { of: Some(of), ..Default::default() };
            UpdateNodeRequest { workflow_id, node_id, update: Some(Update::Progress(progress)) }
                .encode_to_vec()
        }
        "WatchWorkflow" => WatchWorkflowRequest { workflow_id, ..Default::default() }.encode_to_vec(),
        "CancelWorkflow" => CancelWorkflowRequest { workflow_id, ..Default::default() }.encode_to_vec(),
        "GetNodeLogs" => GetNodeLogsRequest { workflow_id, node_id, ..Default::default() }.encode_to_vec(),
        "RegisterExecutor" => {
            let (name, address) = (id("executors"), "http://127.0.0.1:1".to_owned());
            let executor = Executor { name, address, capacity: 1, ..Default::default() };
            RegisterExecutorRequest { executor: Some(executor) }.encode_to_vec()
        }
        "RetireExecutor" => RetireExecutorRequest { name: id("executors") }.encode_to_vec(),
        "ListExecutors" => ListExecutorsRequest {}.encode_to_vec(),
        "LeaseTasks" => {
            LeaseTasksRequest { types: vec!["zz-resize".to_owned()], ..Default::default() }.encode_to_vec()
        }
        "HeartbeatTask" => HeartbeatTaskRequest { key, token, ..Default::default() }.encode_to_vec(),
        "CompleteTask" => CompleteTaskRequest { key, token, ..Default::default() }.encode_to_vec(),
        "FailTask" => {
            FailTaskRequest { key, token, message: "broken".to_owned(), ..Default::default() }.encode_to_vec()
        }
        "RegisterDevice" => RegisterDeviceRequest { device_id, ..Default::default() }.encode_to_vec(),
        "HeartbeatDevice" => {
            let beat = RunBeat { run_id: id("runs"), token: data.seat_token, ..Default::default() };
            HeartbeatDeviceRequest { device_id, runs: vec![beat], ..Default::default() }.encode_to_vec()
        }
        "WatchAssignments" => WatchAssignmentsRequest { device_id, ..Default::default() }.encode_to_vec(),
        "ActOnRun" => {
            let act = Some(Act::Accept(RunAccept {}));
            ActOnRunRequest { run_id: id("runs"), device_id, token: data.seat_token, act, seat: None }
                .encode_to_vec()
        }
        method => panic!("no message about the owner's data for {method}"),
    }
}

/// The first message of an answer, and its status; an open stream has sent its first message.
struct CallAnswer {
    code: String,
    text: String,
}

async fn answered(data: &OwnedData, call: &str, key: &str) -> CallAnswer {
    let message = message_of(data, call);
    let mut framed = vec![0];
    framed.extend_from_slice(&u32::try_from(message.len()).unwrap().to_be_bytes());
    framed.extend_from_slice(&message);
    let request = Request::post(call).header("content-type", "application/grpc").body(Body::from(framed));
    let request = keyed(request.unwrap(), key);
    let response = data.bench.app.clone().oneshot(request).await.unwrap();
    let (parts, mut body) = response.into_parts();
    let (mut text, mut code) = (details(&parts.headers), code_of(&parts.headers));
    while code.is_none() {
        let frame = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx));
        let frame = tokio::time::timeout(Duration::from_secs(60), frame).await;
        match frame.expect("a frame within a minute").map(Result::unwrap) {
            Some(frame) if frame.is_data() => {
                text.push_str(&String::from_utf8_lossy(frame.data_ref().unwrap()));
                code = Some(OK.to_owned());
            }
            Some(frame) => {
                let trailers = frame.trailers_ref().unwrap();
                text.push_str(&details(trailers));
                code = code_of(trailers);
            }
            None => panic!("{call} ended without a status"),
        }
    }
    CallAnswer { code: code.unwrap(), text }
}

fn code_of(headers: &HeaderMap) -> Option<String> {
    headers.get("grpc-status").map(|value| value.to_str().unwrap().to_owned())
}

fn details(headers: &HeaderMap) -> String {
    headers.get("grpc-message").map_or_else(String::new, |value| value.to_str().unwrap().to_owned())
}

/// Whether a call creates, lists, leases or deregisters: one without a match is no error.
fn needs_nothing_to_exist(call: &str) -> bool {
    ["Create", "List", "Register", "Lease", "Retire"].iter().any(|verb| method(call).starts_with(verb))
}

fn of_a_tenant() -> impl Iterator<Item = (String, Vec<Role>)> {
    let roles = |CallAccess { call, needs }: CallAccess| {
        let permitted = Role::ALL.iter().copied().filter(|role| role.permits(needs.unwrap()));
        (call, permitted.collect())
    };
    role_table::grpc_access().into_iter().filter(|access| access.needs.is_some()).map(roles)
}

#[tokio::test]
async fn grpc_roles_reach_own_data() {
    let (mut calls, mut wrong) = (0, Vec::new());
    for (call, roles) in of_a_tenant() {
        for role in roles {
            let data = OwnedData::furnished().await;
            let key = secret(OWNER, role);
            // Edits are answered once they are decided.
            let engine = Engine::from(&data.bench);
            let answer = engine.while_deciding(data.id("graphs"), answered(&data, &call, &key)).await;
            let reads = ["Get", "List", "Watch", "Lease"].iter().any(|verb| method(&call).starts_with(verb));
            let shown = !reads || data.leak(&answer.text, "").is_some();
            // A conflict with the current state proves that the call found its data.
            if ![OK, FAILED_PRECONDITION].contains(&answer.code.as_str()) || !shown {
                wrong.push(format!("{call} as {role}: code {} {}", answer.code, answer.text));
            }
            calls += 1;
        }
    }
    assert!(wrong.is_empty(), "these do not reach the tenant's data:\n{}", wrong.join("\n"));
    assert!(calls > 50, "{calls}");
}

#[tokio::test]
async fn grpc_methods_isolate_tenants() {
    let data = OwnedData::furnished().await;
    let (mut before, mut wrong) = (owned(&data).await, Vec::new());
    let (makes, names): (Vec<_>, Vec<_>) = of_a_tenant().partition(|(call, _)| needs_nothing_to_exist(call));
    for (call, roles) in names.into_iter().chain(makes) {
        for role in roles {
            let answer = answered(&data, &call, &secret(STRANGER, role)).await;
            let asked = data.ids_in(&String::from_utf8_lossy(&message_of(&data, &call)));
            let leak = data.leak(&answer.text, &asked);
            if leak.is_some() || !(needs_nothing_to_exist(&call) || answer.code == NOT_FOUND) {
                let CallAnswer { code, text } = answer;
                wrong.push(format!("{call} as {role} shows {leak:?}: code {code} {text}"));
            }
        }
        if owned(&data).await != before {
            wrong.push(format!("{call} changed the data"));
            before = owned(&data).await;
        }
    }
    assert!(wrong.is_empty(), "another tenant:\n{}", wrong.join("\n"));
}
