//! `DeviceService`: the same devices and runs over gRPC.

use std::time::Duration;

use millstream_ingress::{AuthMode, IngressOptions};
use millstream_model::status::Role;
use millstream_rpc::proto::act_on_run_request::Act;
use millstream_rpc::proto::device_service_client::DeviceServiceClient;
use millstream_rpc::proto::{
    ActOnRunRequest, ActOnRunResponse, Assignment, HeartbeatDeviceRequest, RegisterDeviceRequest, RunAccept,
    RunBeat, RunClaim, RunComplete, RunFail, RunGiveUp, RunProgress, RunStart, WatchAssignmentsRequest,
    WatchAssignmentsResponse,
};
use serde_json::{Value, json};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status, Streaming};
use tonic_types::StatusExt as _;

use crate::bench::{Bench, deps, open_options};
use crate::wire::{Served, serve, serve_on};

struct Calls {
    door: Served,
    devices: DeviceServiceClient<Channel>,
}

impl Calls {
    async fn open() -> Self {
        Self::of(serve(open_options()).await).await
    }

    async fn of(door: Served) -> Self {
        let channel = Endpoint::from_shared(format!("http://{}", door.address)).unwrap();
        Self { devices: DeviceServiceClient::new(channel.connect().await.unwrap()), door }
    }

    /// With these devices, which take one seat each.
    async fn with(ids: &[&str]) -> Self {
        let mut calls = Self::open().await;
        for id in ids {
            let registered = calls.devices.register_device(device(id)).await.unwrap().into_inner();
            assert_eq!((registered.paused, registered.open), (false, 0));
        }
        calls
    }

    async fn run(&self, id: &str, with: Value) {
        let mut body = json!({"run_id": id, "kind": "film", "input": {"frames": 3}});
        body.as_object_mut().unwrap().extend(with.as_object().unwrap().clone());
        let answer = self.door.json("/v1/runs", &body.to_string()).await;
        assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    }

    async fn watch(&mut self, device: &str, version: &str) -> Streaming<WatchAssignmentsResponse> {
        self.devices.watch_assignments(watch(device, version)).await.unwrap().into_inner()
    }

    async fn act(&mut self, who: (&str, i64), act: Act) -> Result<ActOnRunResponse, Status> {
        let (device, token) = who;
        let request = ActOnRunRequest { token, ..by(device, act) };
        self.devices.act_on_run(request).await.map(tonic::Response::into_inner)
    }
}

fn device(id: &str) -> RegisterDeviceRequest {
    RegisterDeviceRequest {
        device_id: id.to_owned(),
        capabilities: vec!["render".to_owned()],
        capacity: Some(1),
        ..RegisterDeviceRequest::default()
    }
}

fn watch(device: &str, version: &str) -> WatchAssignmentsRequest {
    WatchAssignmentsRequest { device_id: device.to_owned(), if_version: version.to_owned() }
}

fn by(device: &str, act: Act) -> ActOnRunRequest {
    ActOnRunRequest {
        run_id: "r-1".to_owned(),
        device_id: device.to_owned(),
        act: Some(act),
        ..ActOnRunRequest::default()
    }
}

fn because(reason: &str) -> RunGiveUp {
    RunGiveUp { reason: reason.to_owned() }
}

async fn next(lists: &mut Streaming<WatchAssignmentsResponse>) -> (Vec<Assignment>, String) {
    let list = lists.message().await.unwrap().expect("the stream has ended");
    (list.assignments, list.version)
}

#[track_caller]
fn refused<T: std::fmt::Debug>(answer: Result<T, Status>, code: Code, words: &str) -> Status {
    let status = answer.expect_err("it was not refused");
    assert_eq!(status.code(), code, "{status:?}");
    assert!(status.message().contains(words), "{words:?} is not in {status:?}");
    status
}

#[tokio::test]
async fn grpc_run_completes() {
    let mut calls = Calls::with(&["one"]).await;
    let mut lists = calls.watch("one", "").await;
    assert!(next(&mut lists).await.0.is_empty());
    calls.run("r-1", json!({})).await;
    let (list, _) = next(&mut lists).await;
    let [assignment] = list.as_slice() else { panic!("{list:?}") };
    assert_eq!((assignment.status.as_str(), assignment.kind.as_str()), ("assigned", "film"));
    assert_eq!(
        (assignment.input_json.as_str(), assignment.due_for.as_str()),
        (r#"{"frames":3}"#, "assignment_timeout")
    );
    let who = ("one", assignment.token);
    assert_eq!(calls.act(who, Act::Accept(RunAccept {})).await.unwrap().status, "claimed");
    assert_eq!(next(&mut lists).await.0[0].status, "claimed");
    assert_eq!(calls.act(who, Act::Start(RunStart {})).await.unwrap().status, "processing");
    let progress = RunProgress { step: 1, total: 3, note: "frame 1".to_owned() };
    calls.act(who, Act::Progress(progress.clone())).await.unwrap();
    let beat = |token| RunBeat { run_id: "r-1".to_owned(), seat: 0, token, progress: Some(progress.clone()) };
    let beat = HeartbeatDeviceRequest {
        device_id: "one".to_owned(),
        load: Some(0.5),
        runs: vec![beat(who.1), beat(9)],
        ..HeartbeatDeviceRequest::default()
    };
    let heard = calls.devices.heartbeat_device(beat).await.unwrap().into_inner().runs;
    assert!(heard[0].held && heard[0].until.is_some(), "{heard:?}");
    assert!(!heard[1].held, "{heard:?}");
    let done = || Act::Complete(RunComplete { output_json: "[1,2,3]".to_owned() });
    let stands = calls.act(who, done()).await.unwrap();
    assert_eq!((stands.status.as_str(), stands.run_status.as_str()), ("completed", "completed"));
    assert_eq!(calls.act(who, done()).await.unwrap().status, "completed", "a repeat is fine");
    while !next(&mut lists).await.0.is_empty() {}
    let run = calls.door.request("GET", "/v1/runs/r-1", "", "").await;
    assert!(run.contains(r#""output":[1,2,3]"#) && run.contains("frame 1"), "{run}");
}

#[tokio::test]
async fn grpc_lost_seat_names_holder() {
    let mut calls = Calls::with(&["one", "two"]).await;
    calls.run("r-1", json!({"created_by": "one"})).await;
    let released = calls.act(("one", 1), Act::Release(because("hot"))).await.unwrap();
    assert_eq!((released.status.as_str(), released.token), ("assigned", 0));
    let status =
        refused(calls.act(("one", 1), Act::Start(RunStart {})).await, Code::FailedPrecondition, "two");
    let info = status.get_details_error_info().unwrap();
    assert_eq!(info.reason, "NOT_OWNER", "{info:?}");
    assert_eq!((info.metadata["device"].as_str(), info.metadata["status"].as_str()), ("two", "assigned"));
    assert!(info.metadata["since"].ends_with('Z'), "{info:?}");
    let failed = RunFail { message: "broken".to_owned(), class: String::new(), retryable: false };
    let early = refused(
        calls.act(("two", 2), Act::Complete(RunComplete::default())).await,
        Code::FailedPrecondition,
        "",
    );
    assert!(early.message().contains("assigned"), "{early:?}");
    calls.act(("two", 2), Act::Accept(RunAccept {})).await.unwrap();
    assert_eq!(calls.act(("two", 2), Act::Fail(failed)).await.unwrap().run_status, "failed");
}

#[tokio::test]
async fn grpc_device_claims_unassigned_seat() {
    let mut calls = Calls::with(&["one"]).await;
    calls.run("r-1", json!({"assign": "manual"})).await;
    let taken = calls.act(("one", 0), Act::Claim(RunClaim {})).await.unwrap();
    assert_eq!((taken.status.as_str(), taken.token), ("claimed", 1));
}

#[tokio::test]
async fn grpc_assignment_stream_resumes_from_version() {
    let mut calls = Calls::with(&["one"]).await;
    calls.run("r-1", json!({})).await;
    let version = next(&mut calls.watch("one", "").await).await.1;
    let mut lists = calls.watch("one", &version).await;
    calls.act(("one", 1), Act::Accept(RunAccept {})).await.unwrap();
    assert_eq!(next(&mut lists).await.0[0].status, "claimed");
    calls.door.shutdown.cancel();
    refused(lists.message().await, Code::Unavailable, "shutting down");
    let ended = tokio::time::timeout(Duration::from_secs(10), calls.door.ended).await;
    ended.expect("the drain did not end").unwrap().unwrap();
}

#[tokio::test]
async fn grpc_run_fault_has_path() {
    let mut calls = Calls::with(&["one"]).await;
    calls.run("r-1", json!({})).await;
    let wrong = RegisterDeviceRequest {
        capabilities: vec!["fine".to_owned(), "No".to_owned()],
        battery: Some(300),
        load: 2.0,
        ..device("one")
    };
    let status =
        refused(calls.devices.register_device(wrong).await, Code::InvalidArgument, "capabilities[1]");
    let named: Vec<String> =
        status.get_details_bad_request().unwrap().field_violations.into_iter().map(|it| it.field).collect();
    assert_eq!(named, ["capabilities[1]", "load", "battery"]);
    let beat = |runs| HeartbeatDeviceRequest { device_id: "one".to_owned(), runs, ..Default::default() };
    let runs = vec![RunBeat { run_id: "r 1".to_owned(), token: 1, ..RunBeat::default() }];
    refused(calls.devices.heartbeat_device(beat(runs)).await, Code::InvalidArgument, "runs[0].run_id");
    for (request, field) in [
        (ActOnRunRequest { act: None, token: 1, ..by("one", Act::Start(RunStart {})) }, "act"),
        (by("one", Act::Start(RunStart {})), "token"),
        (ActOnRunRequest { seat: Some(70_000), ..by("one", Act::Claim(RunClaim {})) }, "seat"),
        (ActOnRunRequest { token: 1, ..by("o ne", Act::Start(RunStart {})) }, "device_id"),
        (ActOnRunRequest { token: 1, ..by("one", Act::Fail(RunFail::default())) }, "fail.message"),
        (
            ActOnRunRequest {
                token: 1,
                ..by("one", Act::Complete(RunComplete { output_json: "{".to_owned() }))
            },
            "complete.output_json",
        ),
    ] {
        refused(calls.devices.act_on_run(request).await, Code::InvalidArgument, field);
    }
    let unknown =
        ActOnRunRequest { run_id: "none".to_owned(), token: 1, ..by("one", Act::Start(RunStart {})) };
    refused(calls.devices.act_on_run(unknown).await, Code::NotFound, "none");
    refused(calls.devices.watch_assignments(watch("none", "")).await, Code::NotFound, "none");
}

#[tokio::test]
async fn grpc_device_calls_need_tenant_key() {
    let deps = deps();
    let mut bench = Bench::open();
    bench.stores = deps.stores.clone();
    bench.key("ms_read", "default", Role::Read).await;
    bench.key("ms_submit", "default", Role::Submit).await;
    bench.key("ms_other", "other", Role::Submit).await;
    let options = IngressOptions { auth: AuthMode::Keys, ..open_options() };
    let mut calls = Calls::of(serve_on(deps, options).await).await;
    for (key, code) in [("ms_none", Code::Unauthenticated), ("ms_read", Code::PermissionDenied)] {
        refused(calls.devices.register_device(keyed(device("one"), key)).await, code, "");
        refused(
            calls.devices.heartbeat_device(keyed(HeartbeatDeviceRequest::default(), key)).await,
            code,
            "",
        );
        refused(calls.devices.watch_assignments(keyed(watch("one", ""), key)).await, code, "");
        refused(calls.devices.act_on_run(keyed(by("one", Act::Start(RunStart {})), key)).await, code, "");
    }
    calls.devices.register_device(keyed(device("one"), "ms_submit")).await.unwrap();
    let other = calls.devices.watch_assignments(keyed(watch("one", ""), "ms_other")).await;
    refused(other, Code::NotFound, "one");
}

fn keyed<T>(message: T, key: &str) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("authorization", format!("Bearer {key}").parse().unwrap());
    request
}
