//! Behaviour that needs a real socket: slow clients, partial requests, many connections.

use std::time::Duration;

use millstream_testkit::eventually;

use crate::bench::open_options;
use crate::wire::serve;

#[tokio::test]
async fn socket_connection_is_kept_alive() {
    let door = serve(open_options()).await;
    let mut wire = door.connect().await;
    for _ in 0..3 {
        wire.send("GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
        let answer = wire.until("}").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

#[tokio::test]
async fn endless_header_is_cut_off() {
    let mut options = open_options();
    options.limits.head_timeout = Duration::from_millis(100);
    let door = serve(options).await;
    let mut wire = door.connect().await;
    wire.send("GET /healthz HTTP/1.1\r\nhost: local").await;
    let answer = wire.rest().await;
    assert!(!answer.contains("200"), "{answer}");
}

#[tokio::test]
async fn unfinished_body_is_408() {
    let mut options = open_options();
    options.limits.body_timeout = Duration::from_millis(100);
    let door = serve(options).await;
    door.order("o-1").await;
    let mut wire = door.connect().await;
    wire.send(
        "POST /v1/executions/o-1/events HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: 100\r\n\r\n{\"name\":",
    )
    .await;
    let answer = wire.until("\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("application/problem+json"), "{answer}");
}

#[tokio::test]
async fn oversized_content_length_is_413() {
    let door = serve(open_options()).await;
    let mut wire = door.connect().await;
    wire.send(
        "POST /v1/events HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: 99999999999\r\nexpect: 100-continue\r\n\r\n",
    )
    .await;
    let answer = wire.rest().await;
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("too-large"), "{answer}");
}

#[tokio::test]
async fn chunked_body_size_is_limited() {
    let door = serve(open_options()).await;
    door.order("o-1").await;
    let mut wire = door.connect().await;
    wire.send(
        "POST /v1/executions/o-1/events HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         transfer-encoding: chunked\r\n\r\n",
    )
    .await;
    let chunk = format!("{:x}\r\n{}\r\n", 100_000, " ".repeat(100_000));
    for _ in 0..3 {
        wire.send(&chunk).await;
    }
    let answer = wire.until("\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
}

#[tokio::test]
async fn oversized_header_leaves_ingress_alive() {
    let door = serve(open_options()).await;
    let mut wire = door.connect().await;
    wire.send(&format!("GET / HTTP/1.1\r\nx: {}", "y".repeat(60 * 1024))).await;
    wire.send(&"y".repeat(10 * 1024)).await;
    let answer = wire.rest().await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    for garbage in ["\0\0\0\0\r\n\r\n", "GET\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n"] {
        let mut wire = door.connect().await;
        wire.send(garbage).await;
        wire.rest().await;
    }
    assert!(door.request("GET", "/healthz", "", "").await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn connection_limit_evicts_idle_connection() {
    let mut options = open_options();
    options.limits.connections = 1;
    let door = serve(options).await;
    let mut first = door.connect().await;
    first.send("GET /v1/workers HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    first.until("}").await;
    let mut second = door.connect().await;
    second.send("GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    assert!(second.until("}").await.starts_with("HTTP/1.1 200"));
    first.rest().await;
}

#[tokio::test]
async fn event_of_disconnected_client_is_accepted() {
    let door = serve(open_options()).await;
    door.order("o-1").await;
    let body = "{\"name\":\"note\"}";
    let mut wire = door.connect().await;
    wire.send(&format!(
        "POST /v1/executions/o-1/events HTTP/1.1\r\nhost: localhost\r\nprefer: wait=60\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    ))
    .await;
    eventually(Duration::from_secs(10), || async {
        let events = door.request("GET", "/v1/events?status=pending", "", "").await;
        if events.contains("\"note\"") { Ok(()) } else { Err(events) }
    })
    .await;
    drop(wire);
    door.decide("o-1").await;
    let events = door.request("GET", "/v1/events?status=completed", "", "").await;
    assert!(events.contains("\"note\""), "{events}");
}

#[tokio::test]
async fn open_ingress_requires_loopback_address() {
    use millstream_ingress::{AuthMode, IngressError, IngressOptions, run_ingress};
    let refused = async |auth: AuthMode| {
        let listener = tokio::net::TcpListener::bind("0.0.0.0:0").await.unwrap();
        let stopped = tokio_util::sync::CancellationToken::new();
        stopped.cancel();
        run_ingress(crate::bench::deps(), IngressOptions { auth, ..open_options() }, listener, stopped).await
    };
    let open = refused(AuthMode::OpenOnLoopback).await;
    assert!(matches!(open, Err(IngressError::OpenBeyondLoopback(_))), "{open:?}");
    let keyless = refused(AuthMode::Keys).await;
    assert!(matches!(keyless, Err(IngressError::NoKeys(_))), "{keyless:?}");
    assert!(refused(AuthMode::InsecureNoAuth).await.is_ok());
}

#[tokio::test]
async fn insecure_no_auth_logs_warning() {
    use millstream_ingress::{AuthMode, IngressOptions, run_ingress};
    use millstream_model::status::Role;
    use millstream_testkit::captured_log::CapturedLog;
    let bench = crate::bench::Bench::open();
    let log_of_start = async |auth: AuthMode| {
        let log = CapturedLog::start_capture();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stopped = tokio_util::sync::CancellationToken::new();
        stopped.cancel();
        let deps = millstream_ingress::IngressDeps { stores: bench.stores.clone(), ..crate::bench::deps() };
        run_ingress(deps, IngressOptions { auth, ..open_options() }, listener, stopped).await.unwrap();
        log.text()
    };
    let flag = "--insecure-no-auth";
    assert!(!log_of_start(AuthMode::OpenOnLoopback).await.contains(flag));
    for _ in 0..2 {
        let log = log_of_start(AuthMode::InsecureNoAuth).await;
        assert!(log.contains("every call without an API key is admin"), "{log}");
    }
    bench.key("ms_a", "default", Role::Read).await;
    let log = log_of_start(AuthMode::InsecureNoAuth).await;
    assert!(log.contains("--insecure-no-auth has no effect"), "{log}");
}
