//! `WatchWorkflow`: each event once, with a position to resume from.

use std::time::Duration;

use futures::StreamExt;
use millstream_rpc::proto::workflow_event::What;
use millstream_rpc::proto::{ListWorkflowsRequest, WatchWorkflowRequest, WorkflowEvent, WorkflowStatus};
use millstream_workflow::graph::NodeStatus;
use tonic::{Code, Status};

use crate::bench::open_options;
use crate::grpc_client::{Clients, refused};
use crate::wire::serve;

fn from(after: &str) -> WatchWorkflowRequest {
    WatchWorkflowRequest { workflow_id: "g-1".to_owned(), after_position: after.to_owned() }
}

async fn whole(clients: &Clients, after: &str) -> Vec<WorkflowEvent> {
    let events = clients.workflows().watch_workflow(from(after)).await.unwrap().into_inner();
    let events: Vec<Result<WorkflowEvent, Status>> = events.collect().await;
    events.into_iter().map(Result::unwrap).collect()
}

async fn ended() -> Clients {
    let clients = Clients::open().await;
    clients.chain("g-1").await;
    clients.engine.dispatch("g-1", "a", "exec-1").await;
    clients.engine.pass("g-1", "a").await;
    clients.engine.dispatch("g-1", "b", "exec-2").await;
    clients.engine.answer("g-1", "b", NodeStatus::Pass, r#"{"go":true}"#).await;
    clients.engine.pass("g-1", "c").await;
    clients
}

#[tokio::test]
async fn grpc_watch_replays_workflow_then_ends() {
    let clients = ended().await;
    let events = whole(&clients, "").await;
    assert!(matches!(events[0].what, Some(What::Created(_))), "{:?}", events[0]);
    let dispatched = events.iter().find_map(|event| match &event.what {
        Some(What::NodeDispatched(it)) => Some((event.seq, it.node_id.as_str(), it.executor.as_str())),
        _ => None,
    });
    assert_eq!(dispatched, Some((0, "a", "exec-1")));
    match &events.last().unwrap().what {
        Some(What::Ended(end)) => assert_eq!(end.status(), WorkflowStatus::Passed),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn grpc_watch_resumes_from_any_position() {
    let clients = ended().await;
    let all = whole(&clients, "").await;
    assert!(all.len() > 6, "{all:?}");
    for (at, event) in all.iter().enumerate() {
        assert_eq!(whole(&clients, &event.position).await, all[at + 1..], "after {}", event.position);
    }
    refused(clients.workflows().watch_workflow(from("soon")).await, Code::InvalidArgument, "after_position");
    let none = WatchWorkflowRequest { workflow_id: "none".to_owned(), ..from("") };
    refused(clients.workflows().watch_workflow(none).await, Code::NotFound, "none");
}

#[tokio::test]
async fn grpc_watch_takes_no_request_slot() {
    let mut options = open_options();
    options.limits.in_flight = 1;
    let clients = Clients::of(serve(options).await).await;
    clients.chain("g-1").await;
    let mut events = clients.workflows().watch_workflow(from("")).await.unwrap().into_inner();
    for _ in 0..2 {
        events.message().await.unwrap().unwrap();
    }
    // The only slot is free while the stream is open.
    assert_eq!(whole_of_one(&clients).await, 1);
    clients.engine.pass("g-1", "a").await;
    let next = events.message().await.unwrap().unwrap();
    assert!(matches!(next.what, Some(What::NodeCompleted(_))), "{next:?}");
}

async fn whole_of_one(clients: &Clients) -> usize {
    let listed = clients.workflows().list_workflows(ListWorkflowsRequest::default()).await;
    listed.unwrap().into_inner().workflows.len()
}

#[tokio::test]
async fn drain_ends_grpc_watch() {
    let clients = Clients::open().await;
    clients.chain("g-1").await;
    let mut events = clients.workflows().watch_workflow(from("")).await.unwrap().into_inner();
    for _ in 0..2 {
        events.message().await.unwrap().unwrap();
    }
    clients.door.shutdown.cancel();
    refused(events.message().await, Code::Unavailable, "shutting down");
    let ended = tokio::time::timeout(Duration::from_secs(10), clients.door.ended).await;
    ended.expect("the drain did not end").unwrap().unwrap();
}

#[tokio::test]
async fn closed_grpc_watch_frees_its_place() {
    let mut options = open_options();
    options.limits.tails = 1;
    let clients = Clients::of(serve(options).await).await;
    clients.chain("g-1").await;
    let first = clients.workflows().watch_workflow(from("")).await.unwrap();
    refused(clients.workflows().watch_workflow(from("")).await, Code::ResourceExhausted, "tails");
    drop(first);
    millstream_testkit::eventually(Duration::from_secs(10), || async {
        clients.workflows().watch_workflow(from("")).await.map(|_| ())
    })
    .await;
}
