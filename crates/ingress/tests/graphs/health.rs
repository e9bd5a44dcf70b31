//! gRPC health checks and reflection.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use bytes::Bytes;
use futures::StreamExt;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1alpha;
use tower::ServiceExt;

use crate::bench::{Bench, open_options};
use crate::grpc_client::{Clients, refused};
use crate::wire::serve;

fn of(service: &str) -> HealthCheckRequest {
    HealthCheckRequest { service: service.to_owned() }
}

#[tokio::test]
async fn grpc_health_follows_readiness() {
    let mut options = open_options();
    options.drain_delay = Duration::from_secs(2);
    let clients = Clients::of(serve(options).await).await;
    let mut health = HealthClient::new(clients.channel.clone());
    for service in
        ["", "millstream.v1.WorkflowService", "millstream.v1.TaskService", "millstream.v1.DeviceService"]
    {
        let status = health.check(of(service)).await.unwrap().into_inner().status();
        assert_eq!(status, ServingStatus::Serving, "{service}");
    }
    refused(health.check(of("nothing")).await, Code::NotFound, "");
    let mut watched = health.watch(of("")).await.unwrap().into_inner();
    assert_eq!(watched.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
    clients.door.shutdown.cancel();
    assert_eq!(watched.message().await.unwrap().unwrap().status(), ServingStatus::NotServing);
    let status = health.check(of("")).await.unwrap().into_inner().status();
    assert_eq!(status, ServingStatus::NotServing);
}

const SERVICES: &[&str] = &[
    "grpc.health.v1.Health",
    "millstream.v1.DeviceService",
    "millstream.v1.ExecutorService",
    "millstream.v1.NodeService",
    "millstream.v1.TaskService",
    "millstream.v1.WorkflowService",
];

#[tokio::test]
async fn reflection_lists_services() {
    let clients = Clients::open().await;
    let mut reflection = ServerReflectionClient::new(clients.channel.clone());
    let list = MessageRequest::ListServices(String::new());
    let request = ServerReflectionRequest { host: String::new(), message_request: Some(list) };
    let answers = reflection.server_reflection_info(futures::stream::iter([request])).await.unwrap();
    let answer = answers.into_inner().next().await.unwrap().unwrap();
    let Some(MessageResponse::ListServicesResponse(list)) = answer.message_response else {
        panic!("{answer:?}")
    };
    let mut names: Vec<&str> = list.service.iter().map(|service| service.name.as_str()).collect();
    names.retain(|name| !name.starts_with("grpc.reflection"));
    names.sort_unstable();
    assert_eq!(names, SERVICES);
}

#[tokio::test]
async fn reflection_supports_v1alpha_clients() {
    let clients = Clients::open().await;
    let mut reflection =
        v1alpha::server_reflection_client::ServerReflectionClient::new(clients.channel.clone());
    let symbol = "millstream.v1.WorkflowService".to_owned();
    let request = v1alpha::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(v1alpha::server_reflection_request::MessageRequest::FileContainingSymbol(
            symbol,
        )),
    };
    let answers = reflection.server_reflection_info(futures::stream::iter([request])).await.unwrap();
    let answer = answers.into_inner().next().await.unwrap().unwrap();
    let described = matches!(
        answer.message_response,
        Some(v1alpha::server_reflection_response::MessageResponse::FileDescriptorResponse(_))
    );
    assert!(described, "{answer:?}");
}

#[tokio::test]
async fn reflection_call_input_is_limited() {
    let clients = Clients::open().await;
    let mut reflection = ServerReflectionClient::new(clients.channel.clone());
    let requests = (0..16).map(|_| ServerReflectionRequest {
        host: "x".repeat(8 * 1024),
        message_request: Some(MessageRequest::ListServices(String::new())),
    });
    let answers = reflection.server_reflection_info(futures::stream::iter(requests)).await.unwrap();
    let answered = answers.into_inner().filter(|answer| std::future::ready(answer.is_ok())).count().await;
    assert!(answered <= 8, "{answered} requests were read");
}

#[tokio::test(start_paused = true)]
async fn health_watch_ends_after_its_limit() {
    let bench = Bench::open();
    let watch = Request::post("/grpc.health.v1.Health/Watch").header("content-type", "application/grpc");
    let watch = watch.body(Body::from(Bytes::from_static(&[0; 5]))).unwrap();
    let watched = bench.app.clone().oneshot(watch).await.unwrap();
    let statuses = axum::body::to_bytes(watched.into_body(), usize::MAX);
    let ended = tokio::time::timeout(Duration::from_secs(3_600), statuses).await;
    assert!(ended.expect("the watch is still open").is_ok());
}
