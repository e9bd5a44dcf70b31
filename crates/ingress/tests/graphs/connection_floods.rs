//! Many connections and calls of clients without a key, with one keyed client among them. Small limits, real
//! sockets.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, Response, StatusCode};
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use millstream_ingress::{AuthMode, IngressOptions};
use millstream_model::status::Role;
use millstream_testkit::eventually;
use tokio::net::TcpSocket;
use tokio::task::JoinHandle;
use tonic::Status;

use crate::bench::{Bench, deps, open_options};
use crate::wire::{Served, serve_on};

const PATIENCE: Duration = Duration::from_secs(20);

/// An ingress that requires keys and has one: `ms_a`.
async fn keyed_door(change: impl FnOnce(&mut IngressOptions)) -> Served {
    let mut options = IngressOptions { auth: AuthMode::Keys, ..open_options() };
    change(&mut options);
    let deps = deps();
    let mut bench = Bench::open();
    bench.stores = deps.stores.clone();
    bench.key("ms_a", "default", Role::Admin).await;
    let door = serve_on(deps, options).await;
    let headers = "content-type: application/json\r\nauthorization: Bearer ms_a\r\n";
    let put = door.request("PUT", "/v1/devices/d", headers, "{}").await;
    assert!(put.starts_with("HTTP/1.1 20"), "{put}");
    door
}

/// An HTTP/2 connection that answers pings automatically.
struct Client {
    sender: SendRequest<Body>,
    ended: JoinHandle<Result<(), hyper::Error>>,
}

impl Client {
    async fn connect(door: &Served) -> Self {
        Self::connect_from(door, [127, 0, 0, 1].into()).await
    }

    async fn connect_from(door: &Served, from: IpAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::new(from, 0)).unwrap();
        let stream = TokioIo::new(socket.connect(door.address).await.unwrap());
        let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
        Self { sender, ended: tokio::spawn(connection) }
    }

    async fn get(&mut self, path: &str, key: Option<&str>) -> Result<Response<Incoming>, hyper::Error> {
        let mut request = Request::get(format!("http://localhost{path}"));
        if let Some(key) = key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        self.sender.send_request(request.body(Body::empty()).unwrap()).await
    }

    /// A call that sends nothing and never ends.
    fn call_and_send_nothing(&mut self, path: &str) -> impl Future<Output = Response<Incoming>> + use<> {
        self.call(path, no_message())
    }

    fn call(&mut self, path: &str, body: Body) -> impl Future<Output = Response<Incoming>> + use<> {
        self.call_with_key(path, None, body)
    }

    fn call_with_key(
        &mut self,
        path: &str,
        key: Option<&str>,
        body: Body,
    ) -> impl Future<Output = Response<Incoming>> + use<> {
        let mut request = Request::post(format!("http://localhost{path}"));
        if let Some(key) = key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let request = request.header("content-type", "application/grpc").body(body).unwrap();
        let answer = self.sender.send_request(request);
        async move { answer.await.unwrap() }
    }

    async fn status(&mut self, path: &str, key: Option<&str>) -> StatusCode {
        let answer = tokio::time::timeout(PATIENCE, self.get(path, key)).await;
        answer.expect("no answer came").unwrap().status()
    }
}

/// A body that neither sends data nor ends.
fn no_message() -> Body {
    Body::from_stream(futures::stream::pending::<Result<Bytes, Status>>())
}

/// The empty message in its gRPC frame.
fn empty_message() -> Body {
    Body::from(Bytes::from_static(&[0; 5]))
}

#[tokio::test]
async fn idle_connections_do_not_block_clients() {
    let door = keyed_door(|options| {
        options.limits.connections = 50;
        options.limits.connections_per_address = 0;
    })
    .await;
    let mut crowd = Vec::new();
    for _ in 0..200 {
        crowd.push(Client::connect(&door).await);
    }
    let mut honest = Client::connect(&door).await;
    assert_eq!(honest.status("/v1/workers", Some("ms_a")).await, StatusCode::OK);
    // The crowd reconnects repeatedly: a connection that carried a key is closed last.
    for _ in 0..45 {
        crowd.push(Client::connect(&door).await);
    }
    assert_eq!(honest.status("/v1/workers", Some("ms_a")).await, StatusCode::OK);
}

#[tokio::test]
async fn idle_connection_with_pings_is_closed() {
    let door = keyed_door(|options| {
        options.limits.idle_timeout = Duration::from_millis(300);
        options.limits.head_timeout = Duration::from_millis(100);
    })
    .await;
    let mut used = Client::connect(&door).await;
    assert_eq!(used.status("/v1/workers", Some("ms_a")).await, StatusCode::OK);
    for client in [used, Client::connect(&door).await] {
        let ended = tokio::time::timeout(PATIENCE, client.ended).await;
        ended.expect("the connection is still open").unwrap().unwrap();
    }
}

#[tokio::test]
async fn connection_limit_is_per_address() {
    let door = keyed_door(|options| options.limits.connections_per_address = 3).await;
    let mut honest = Client::connect_from(&door, [127, 0, 0, 2].into()).await;
    let mut crowd = Vec::new();
    for _ in 0..6 {
        crowd.push(Client::connect(&door).await);
    }
    for client in crowd.drain(..3) {
        let ended = tokio::time::timeout(PATIENCE, client.ended).await;
        let _ = ended.expect("the oldest connections of the address are still open").unwrap();
    }
    for client in &mut crowd {
        assert_eq!(client.status("/healthz", None).await, StatusCode::OK);
    }
    assert_eq!(honest.status("/healthz", None).await, StatusCode::OK);
}

#[tokio::test]
async fn probes_bypass_request_limit() {
    let door = keyed_door(|options| options.limits.connections = 2).await;
    let mut tails = Vec::new();
    for _ in 0..2 {
        let mut client = Client::connect(&door).await;
        let tail = client.get("/v1/devices/d/assignments/stream", Some("ms_a")).await.unwrap();
        assert_eq!(tail.status(), StatusCode::OK);
        tails.push((client, tail));
    }
    let mut probe = Client::connect(&door).await;
    for path in ["/healthz", "/readyz"] {
        assert_eq!(probe.status(path, None).await, StatusCode::OK, "{path}");
    }
    assert_eq!(probe.status("/metrics", Some("ms_a")).await, StatusCode::OK);
    assert_eq!(probe.status("/v1/workers", Some("ms_a")).await, StatusCode::TOO_MANY_REQUESTS);
    drop(tails.pop());
    eventually(PATIENCE, || async {
        let status = Client::connect(&door).await.status("/v1/workers", Some("ms_a")).await;
        if status == StatusCode::OK { Ok(()) } else { Err(status) }
    })
    .await;
}

#[tokio::test]
async fn anonymous_calls_do_not_block_keyed_calls() {
    let door = keyed_door(|options| options.limits.in_flight = 16).await;
    let mut crowd = Vec::new();
    let mut calls = Vec::new();
    for _ in 0..17 {
        let mut client = Client::connect(&door).await;
        for path in ["/millstream.v1.WorkflowService/GetWorkflow", "/grpc.health.v1.Health/Check"] {
            calls.extend((0..20).map(|_| tokio::spawn(client.call_and_send_nothing(path))));
        }
        crowd.push(client);
    }
    let mut honest = Client::connect(&door).await;
    for _ in 0..20 {
        assert_eq!(honest.status("/v1/workers", Some("ms_a")).await, StatusCode::OK);
    }
    for call in calls.into_iter().step_by(40).take(5) {
        // Calls of services that require a key are rejected; health checks time out later.
        let answer = tokio::time::timeout(PATIENCE, call).await.expect("no answer came").unwrap();
        assert_eq!(answer.headers()["grpc-status"], "16");
    }
}

#[tokio::test]
async fn health_watches_have_separate_budget() {
    let door = keyed_door(|options| {
        options.limits.tails = 1;
        options.limits.health_watches = 3;
        options.limits.reflections = 2;
    })
    .await;
    let mut crowd = Client::connect(&door).await;
    let mut open = Vec::new();
    for (path, places) in [
        ("/grpc.health.v1.Health/Watch", 3),
        ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", 2),
    ] {
        for n in 0..places + 2 {
            let message = if path.contains("Watch") { empty_message() } else { no_message() };
            let answer = tokio::time::timeout(PATIENCE, crowd.call(path, message)).await.expect("no answer");
            let refused = answer.headers().get("grpc-status").map(|code| code.to_str().unwrap().to_owned());
            let expected = (n >= places).then(|| "8".to_owned());
            assert_eq!(refused, expected, "{path} {n}");
            open.push(answer);
        }
    }
    let mut honest = Client::connect(&door).await;
    assert_eq!(honest.status("/v1/devices/d/assignments/stream", Some("ms_a")).await, StatusCode::OK);
}

#[tokio::test]
async fn grpc_call_without_message_times_out() {
    let door = keyed_door(|options| options.limits.body_timeout = Duration::from_millis(200)).await;
    let mut client = Client::connect(&door).await;
    for (path, key) in [
        ("/grpc.health.v1.Health/Check", None),
        ("/grpc.health.v1.Health/Watch", None),
        ("/millstream.v1.WorkflowService/GetWorkflow", Some("ms_a")),
    ] {
        let call = client.call_with_key(path, key, no_message());
        let answer = tokio::time::timeout(PATIENCE, call).await.expect("the call is still open");
        assert_eq!(answer.headers()["grpc-status"], "4", "{path}");
    }
}
