//! Revocation of a key ends every stream that it opened, over HTTP and gRPC.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, Request};
use bytes::{BufMut, Bytes, BytesMut};
use futures::StreamExt;
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use millstream_model::id::TenantId;
use millstream_model::status::Role;
use millstream_rpc::proto::{LeaseTasksRequest, WatchAssignmentsRequest, WatchWorkflowRequest};
use millstream_store::key_store::{KeyChoice, NewKey};
use prost::Message;
use sha2::{Digest, Sha256};
use tokio::net::TcpStream;
use tonic::Status;

use crate::bench::open_options;
use crate::create::chain;
use crate::wire::{Served, serve};

const SECRET: &str = "ms_streams";

/// With an execution, a graph and a device, and a single key.
async fn with_everything() -> Served {
    let door = serve(open_options()).await;
    door.order("o-1").await;
    let graph = door.json("/v1/graphs", &chain("g-1").to_string()).await;
    assert!(graph.starts_with("HTTP/1.1 201"), "{graph}");
    let json = "content-type: application/json\r\n";
    let device = door.request("PUT", "/v1/devices/one", json, "{\"capacity\":1}").await;
    assert!(device.starts_with("HTTP/1.1 200"), "{device}");
    let hash = Sha256::digest(SECRET.as_bytes()).into();
    let key = NewKey::for_tenant(TenantId::default_tenant(), "streams", Role::Admin, hash);
    let deps = &door.deps;
    assert!(deps.stores.keys.create_key(&key, deps.clock.now()).await.unwrap());
    door
}

/// A message in its gRPC frame.
fn framed(message: &impl Message) -> Bytes {
    let bytes = message.encode_to_vec();
    let mut frame = BytesMut::new();
    frame.put_u8(0);
    frame.put_u32(u32::try_from(bytes.len()).unwrap());
    frame.put_slice(&bytes);
    frame.freeze()
}

fn call(message: &impl Message) -> Option<Body> {
    Some(Body::from(framed(message)))
}

/// A call whose request stays open.
fn open_call(message: &impl Message) -> Option<Body> {
    let sent = futures::stream::iter([Ok::<Bytes, Status>(framed(message))]);
    Some(Body::from_stream(sent.chain(futures::stream::pending())))
}

async fn open(
    sender: &mut SendRequest<Body>,
    path: &str,
    message: Option<Body>,
) -> hyper::Response<Incoming> {
    let request = match &message {
        None => Request::get(format!("http://localhost{path}")),
        Some(_) => Request::post(format!("http://localhost{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers"),
    };
    let request = request.header("authorization", format!("Bearer {SECRET}"));
    let request = request.body(message.unwrap_or_default()).unwrap();
    sender.send_request(request).await.unwrap()
}

/// The trailers of a response.
async fn trailers(mut body: Incoming) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        trailers.extend(frame.unwrap().into_trailers().unwrap_or_default());
    }
    trailers
}

#[tokio::test]
async fn key_revocation_ends_every_stream() {
    let door = with_everything().await;
    let watch = WatchWorkflowRequest { workflow_id: "g-1".to_owned(), ..Default::default() };
    let lease = LeaseTasksRequest { types: vec!["any".to_owned()], max: 1, ..Default::default() };
    let assignments = WatchAssignmentsRequest { device_id: "one".to_owned(), ..Default::default() };
    let streams: Vec<(&str, Option<Body>)> = vec![
        ("/v1/executions/o-1/tail", None),
        ("/v1/graphs/g-1/watch", None),
        ("/v1/devices/one/assignments/stream", None),
        ("/millstream.v1.WorkflowService/WatchWorkflow", call(&watch)),
        ("/millstream.v1.TaskService/LeaseTasks", open_call(&lease)),
        ("/millstream.v1.DeviceService/WatchAssignments", call(&assignments)),
    ];
    let stream = TcpStream::connect(door.address).await.unwrap();
    let (mut sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut opened = Vec::new();
    for (path, message) in streams {
        let is_call = message.is_some();
        let answer = open(&mut sender, path, message).await;
        assert_eq!(answer.status(), 200, "{path}");
        assert!(!answer.headers().contains_key("grpc-status"), "{path}: {answer:?}");
        opened.push((path, is_call, answer.into_body()));
    }

    let (deps, tenant) = (&door.deps, TenantId::default_tenant());
    let which = KeyChoice::Name("streams".to_owned());
    assert!(deps.stores.keys.revoke_key(Some(&tenant), &which, deps.clock.now()).await.unwrap());
    for (path, is_call, body) in opened {
        // None of them ends by itself.
        let ended = tokio::time::timeout(Duration::from_secs(60), trailers(body)).await;
        let trailers = ended.unwrap_or_else(|_| panic!("{path} is still open"));
        let status = trailers.get("grpc-status").map(|status| status.to_str().unwrap());
        assert_eq!(status, is_call.then_some("16"), "{path}");
    }
}
