//! `TaskService` and `ExecutorService`.

use std::time::Duration;

use futures::StreamExt;
use millstream_rpc::length::length_out;
use millstream_rpc::proto::fail_task_request::Then;
use millstream_rpc::proto::{
    CompleteTaskRequest, Executor, FailTaskRequest, HeartbeatTaskRequest, LeaseTasksRequest, LeasedTask,
    ListExecutorsRequest, RegisterExecutorRequest, RetireExecutorRequest, TaskOutcome,
};
use tonic::Code;

use crate::grpc_client::{Clients, refused};

const RESIZE: &str = r#"
name: resize
initial: waiting
states:
  waiting: { on: { go: { do: [shrink] }, done: {} } }
actions:
  shrink:
    task: { type: resize, input: { n: 1 } }
    on_success: done
"#;

/// A server with this many ready tasks.
async fn with_tasks(count: usize) -> Clients {
    let clients = Clients::open().await;
    let yaml = "content-type: application/yaml\r\n";
    let put = clients.door.request("POST", "/v1/definitions", yaml, RESIZE).await;
    assert!(put.starts_with("HTTP/1.1 20"), "{put}");
    for at in 0..count {
        let body = format!(r#"{{"definition":"resize","execution_id":"r-{at}","events":[{{"name":"go"}}]}}"#);
        let started = clients.door.json("/v1/executions", &body).await;
        assert!(started.starts_with("HTTP/1.1 201"), "{started}");
        clients.door.decide(&format!("r-{at}")).await;
    }
    clients
}

fn wish(max: u32) -> LeaseTasksRequest {
    LeaseTasksRequest {
        types: vec!["resize".to_owned()],
        max,
        worker: "w-1".to_owned(),
        ..LeaseTasksRequest::default()
    }
}

async fn lease(clients: &Clients, wish: LeaseTasksRequest) -> Vec<LeasedTask> {
    let stream = clients.tasks().lease_tasks(futures::stream::iter([wish])).await.unwrap().into_inner();
    stream.flat_map(|answer| futures::stream::iter(answer.unwrap().tasks)).collect().await
}

#[tokio::test]
async fn grpc_task_is_leased_renewed_completed() {
    let clients = with_tasks(1).await;
    let tasks = lease(&clients, wish(5)).await;
    let [task] = tasks.as_slice() else { panic!("{tasks:?}") };
    assert_eq!((task.r#type.as_str(), task.attempt, task.input_json.as_str()), ("resize", 1, r#"{"n":1}"#));
    let beat = HeartbeatTaskRequest {
        key: task.key.clone(),
        token: task.token,
        progress_json: r#"{"at":1}"#.to_owned(),
    };
    let held = clients.tasks().heartbeat_task(beat).await.unwrap().into_inner();
    assert!(!held.cancelled && held.lease_until.is_some());
    let done = |token| CompleteTaskRequest { key: task.key.clone(), token, result_json: "7".to_owned() };
    refused(clients.tasks().complete_task(done(task.token + 1)).await, Code::FailedPrecondition, "w-1");
    let settled = clients.tasks().complete_task(done(task.token)).await.unwrap().into_inner();
    assert_eq!((settled.outcome(), settled.event_status.as_str()), (TaskOutcome::Completed, "completed"));
    refused(clients.tasks().complete_task(done(task.token)).await, Code::FailedPrecondition, "already");
}

#[tokio::test]
async fn grpc_failed_task_reports_next_step() {
    let clients = with_tasks(1).await;
    let task = lease(&clients, wish(1)).await.remove(0);
    let fail = |then: Then, message: &str| FailTaskRequest {
        key: task.key.clone(),
        token: task.token,
        message: message.to_owned(),
        then: then.into(),
        retry_after: Some(length_out(Duration::from_secs(60))),
        ..FailTaskRequest::default()
    };
    refused(clients.tasks().fail_task(fail(Then::Retry, "")).await, Code::InvalidArgument, "message");
    let settled = clients.tasks().fail_task(fail(Then::Retry, "broken")).await.unwrap().into_inner();
    assert_eq!(settled.outcome(), TaskOutcome::Retried);
    let unknown =
        HeartbeatTaskRequest { key: "default/x/1/shrink".to_owned(), ..HeartbeatTaskRequest::default() };
    refused(clients.tasks().heartbeat_task(unknown).await, Code::NotFound, "task");
}

#[tokio::test]
async fn grpc_lease_stream_respects_capacity() {
    let clients = with_tasks(3).await;
    let (room, asking) = futures::channel::mpsc::unbounded();
    room.unbounded_send(wish(2)).unwrap();
    let mut stream = clients.tasks().lease_tasks(asking).await.unwrap().into_inner();
    let mut got = Vec::new();
    while got.len() < 2 {
        got.extend(stream.message().await.unwrap().unwrap().tasks);
    }
    assert_eq!(got.len(), 2);
    // No further task before there is capacity.
    let more = LeaseTasksRequest { max: 5, ..LeaseTasksRequest::default() };
    room.unbounded_send(more).unwrap();
    got.extend(stream.message().await.unwrap().unwrap().tasks);
    assert_eq!(got.len(), 3);
    drop(room);
    assert!(stream.message().await.unwrap().is_none());
}

#[tokio::test]
async fn invalid_grpc_lease_request_is_rejected() {
    let clients = with_tasks(0).await;
    for (wish, field) in [
        (LeaseTasksRequest::default(), "types"),
        (LeaseTasksRequest { types: vec!["No".to_owned()], ..wish(1) }, "types[0]"),
        (wish(257), "max"),
        (LeaseTasksRequest { wait: Some(length_out(Duration::from_secs(61))), ..wish(1) }, "wait"),
    ] {
        let answer = clients.tasks().lease_tasks(futures::stream::iter([wish])).await;
        refused(answer, Code::InvalidArgument, field);
    }
    assert!(lease(&clients, wish(1)).await.is_empty());
}

#[tokio::test]
async fn grpc_lease_stream_limits_message_size() {
    let clients = with_tasks(0).await;
    let longest = |letter: char| (0..64).map(|n| format!("{letter}{n:0>127}")).collect::<Vec<_>>();
    let largest = LeaseTasksRequest { types: longest('t'), labels: longest('l'), ..wish(256) };
    assert!(lease(&clients, largest).await.is_empty(), "the largest request that is valid");

    let (room, asking) = futures::channel::mpsc::unbounded();
    room.unbounded_send(wish(1)).unwrap();
    let mut stream = clients.tasks().lease_tasks(asking).await.unwrap().into_inner();
    let large = LeaseTasksRequest { worker: "w".repeat(64 * 1024), ..LeaseTasksRequest::default() };
    room.unbounded_send(large).unwrap();
    refused(stream.message().await, Code::OutOfRange, "too large");
}

#[tokio::test]
async fn drain_ends_grpc_lease_stream() {
    let clients = with_tasks(0).await;
    let (room, asking) = futures::channel::mpsc::unbounded();
    room.unbounded_send(wish(1)).unwrap();
    let mut stream = clients.tasks().lease_tasks(asking).await.unwrap().into_inner();
    clients.door.shutdown.cancel();
    refused(stream.message().await, Code::Unavailable, "shutting down");
    drop(room);
    let ended = tokio::time::timeout(Duration::from_secs(10), clients.door.ended).await;
    ended.expect("the drain did not end").unwrap().unwrap();
}

#[tokio::test]
async fn grpc_executor_registers_and_retires() {
    let clients = Clients::open().await;
    let executor = |name: &str, capacity| RegisterExecutorRequest {
        executor: Some(Executor {
            name: name.to_owned(),
            address: "http://127.0.0.1:7000".to_owned(),
            roles: vec!["coder".to_owned()],
            capacity,
            ..Executor::default()
        }),
    };
    let heard = clients.executors().register_executor(executor("e-1", 4)).await.unwrap().into_inner();
    assert_eq!(heard.beat_every, Some(length_out(Duration::from_secs(5))));
    let wrong = clients.executors().register_executor(executor("e-1", 0)).await;
    refused(wrong, Code::InvalidArgument, "executor.capacity");
    let unnamed = clients.executors().register_executor(RegisterExecutorRequest::default()).await;
    refused(unnamed, Code::InvalidArgument, "executor");
    let list = async || {
        let listed = clients.executors().list_executors(ListExecutorsRequest {}).await.unwrap();
        listed.into_inner().executors
    };
    let listed = list().await;
    assert_eq!((listed[0].name.as_str(), listed[0].capacity), ("e-1", 4));
    for _ in 0..2 {
        let retire = RetireExecutorRequest { name: "e-1".to_owned() };
        clients.executors().retire_executor(retire).await.unwrap();
    }
    assert!(list().await.is_empty());
}
