//! Clients that send requests and read no answers: the resources that their answers hold, and for how long.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use millstream_ingress::{AuthMode, IngressOptions};
use millstream_testkit::eventually;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::bench::open_options;
use crate::wire::{Served, serve};

type Unread = hyper::Response<Incoming>;

/// A connection that cannot send any byte of a body, and its end.
async fn without_window(door: &Served) -> (SendRequest<Body>, JoinHandle<hyper::Result<()>>) {
    let stream = TcpStream::connect(door.address).await.unwrap();
    let mut builder = Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(0);
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
    (sender, tokio::spawn(connection))
}

/// The head of the answer; its body stays unread.
async fn ask(sender: &mut SendRequest<Body>, path: &str) -> Unread {
    let request = Request::get(format!("http://localhost{path}")).body(Body::empty()).unwrap();
    sender.send_request(request).await.unwrap()
}

async fn call(sender: &mut SendRequest<Body>, path: &str) -> Unread {
    let request = Request::post(format!("http://localhost{path}")).header("content-type", "application/grpc");
    sender.send_request(request.body(Body::from(vec![0; 5])).unwrap()).await.unwrap()
}

async fn until_served(door: &Served, path: &str) {
    eventually(Duration::from_secs(10), || async {
        let answer = door.request("GET", path, "", "").await;
        if answer.starts_with("HTTP/1.1 200") { Ok(()) } else { Err(answer) }
    })
    .await;
}

const EXECUTION: &str = "/v1/executions/o-1";
const LIST: &str = "/millstream.v1.ExecutorService/ListExecutors";

#[tokio::test]
async fn unread_answer_keeps_request_slot() {
    let mut options = open_options();
    options.limits.in_flight = 4;
    let door = serve(options).await;
    door.order("o-1").await;
    let (mut sender, connection) = without_window(&door).await;
    // Three of four slots are the share of a tenant, over either transport.
    let mut unread = vec![ask(&mut sender, EXECUTION).await, ask(&mut sender, EXECUTION).await];
    unread.push(call(&mut sender, LIST).await);
    assert!(unread.iter().all(|answer| answer.status() == StatusCode::OK));
    let refused = door.request("GET", EXECUTION, "", "").await;
    assert!(refused.starts_with("HTTP/1.1 429") && refused.contains("requests_in_flight"), "{refused}");
    let called = call(&mut sender, LIST).await;
    assert_eq!(called.headers()["grpc-status"], "8", "{called:?}");
    drop((unread, called, sender));
    connection.abort();
    until_served(&door, EXECUTION).await;
}

#[tokio::test]
async fn unread_page_keeps_its_bytes() {
    let mut options = open_options();
    options.limits.body_bytes_in_flight = 64 * 1024;
    let door = serve(options).await;
    door.order("o-1").await;
    let note = format!("{{\"name\":\"note\",\"payload\":\"{}\"}}", "x".repeat(30_000));
    let event = door.json("/v1/executions/o-1/events", &note).await;
    assert!(event.starts_with("HTTP/1.1 202"), "{event}");
    door.decide("o-1").await;
    let history = "/v1/executions/o-1/history";
    let page = door.request("GET", history, "", "").await;
    assert!(page.starts_with("HTTP/1.1 200") && page.len() > 30_000, "{}", page.len());

    let (mut sender, connection) = without_window(&door).await;
    let unread = ask(&mut sender, history).await;
    assert_eq!(unread.status(), StatusCode::OK);
    let refused = door.request("GET", history, "", "").await;
    assert!(refused.starts_with("HTTP/1.1 429") && refused.contains("body_bytes_in_flight"), "{refused}");
    let small = door.json("/v1/executions/o-1/events", "{\"name\":\"note\"}").await;
    assert!(small.starts_with("HTTP/1.1 202"), "{small}");
    drop((unread, sender));
    connection.abort();
    until_served(&door, history).await;
}

#[tokio::test]
async fn unreading_client_is_closed() {
    let mut options = open_options();
    options.limits.stall_timeout = Duration::from_millis(200);
    let door = serve(options).await;
    door.order("o-1").await;
    let (mut sender, connection) = without_window(&door).await;
    let unread = ask(&mut sender, EXECUTION).await;
    assert_eq!(unread.status(), StatusCode::OK);
    let ended = tokio::time::timeout(Duration::from_secs(10), connection).await;
    assert!(ended.is_ok(), "the connection is still open");
}

#[tokio::test]
async fn anonymous_requests_are_limited() {
    let mut options = IngressOptions { auth: AuthMode::Keys, ..open_options() };
    options.limits.head_timeout = Duration::from_millis(300);
    let door = serve_with_key(options).await;
    let (mut sender, _connection) = without_window(&door).await;
    let mut unread = Vec::new();
    for _ in 0..8 {
        unread.push(ask(&mut sender, EXECUTION).await);
    }
    assert!(unread.iter().all(|answer| answer.status() == StatusCode::UNAUTHORIZED));
    assert_eq!(ask(&mut sender, EXECUTION).await.status(), StatusCode::TOO_MANY_REQUESTS);
    unread.pop();
    let request = |key: &str| {
        let request = Request::builder().method(Method::GET).uri(format!("http://localhost{EXECUTION}"));
        request.header("authorization", format!("Bearer {key}")).body(Body::empty()).unwrap()
    };
    let known = sender.send_request(request("ms_known")).await.unwrap();
    assert_eq!(known.status(), StatusCode::NOT_FOUND, "a place is free, and the key is valid");
    // The connection is trusted now: it may have more requests in flight.
    for _ in 0..4 {
        unread.push(ask(&mut sender, EXECUTION).await);
    }
    assert!(unread.iter().all(|answer| answer.status() == StatusCode::UNAUTHORIZED));
}

async fn serve_with_key(options: IngressOptions) -> Served {
    let bench = crate::bench::Bench::open();
    bench.key("ms_known", "default", millstream_model::status::Role::Read).await;
    let deps = millstream_ingress::IngressDeps { stores: bench.stores.clone(), ..crate::bench::deps() };
    crate::wire::serve_on(deps, options).await
}

#[tokio::test]
async fn unread_openapi_answers_are_limited() {
    let mut options = open_options();
    (options.limits.documents, options.limits.probes) = (1, 1);
    let door = serve(options).await;
    let (mut sender, connection) = without_window(&door).await;
    let unread = [ask(&mut sender, "/openapi.json").await, ask(&mut sender, "/healthz").await];
    assert!(unread.iter().all(|answer| answer.status() == StatusCode::OK));
    let refused = door.request("GET", "/openapi.json", "", "").await;
    assert!(refused.starts_with("HTTP/1.1 429") && refused.contains("(openapi)"), "{refused}");
    for path in ["/healthz", "/readyz"] {
        let answer = door.request("GET", path, "", "").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    drop((unread, sender));
    connection.abort();
    until_served(&door, "/openapi.json").await;
}
