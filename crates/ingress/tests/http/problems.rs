//! The shape of problem documents, from every source.

use axum::body::Body;
use axum::http::Request;
use serde_json::json;

use crate::bench::{Answer, Bench, get, header, post, with_type};

/// The document and its headers, without the parts that differ between runs.
fn shown(answer: &Answer) -> serde_json::Value {
    let mut document = answer.json();
    document["instance"] = json!("[request]");
    json!({
        "content-type": answer.header("content-type"),
        "allow": answer.header("allow"),
        "retry-after": answer.header("retry-after"),
        "www-authenticate": answer.header("www-authenticate"),
        "document": document,
    })
}

#[tokio::test]
async fn problem_documents_match_snapshots() {
    let bench = Bench::with_order().await;
    bench.start("o-1").await;
    let requests = [
        ("unknown path", get("/v2/anything")),
        ("unknown method", Request::delete("/v1/executions").body(Body::empty()).unwrap()),
        ("no such execution", get("/v1/executions/none")),
        ("unknown fields", post("/v1/executions/o-1/events", &json!({"name": "pay", "paylaod": 1, "x": 2}))),
        ("unknown event", post("/v1/executions/o-1/events", &json!({"name": "shipp"}))),
        ("not json", with_type("/v1/executions/o-1/events", "application/json", "{nope")),
        ("not a media type", with_type("/v1/events", "text/csv", "a,b")),
        ("too large", with_type("/v1/executions/o-1/events", "application/json", "x".repeat(300_000))),
        ("a foreign host", header(get("/v1/workers"), "host", "evil.test")),
    ];
    for (name, request) in requests {
        let answer = bench.send(request).await;
        insta::assert_yaml_snapshot!(format!("problem-{}", name.replace(' ', "-")), shown(&answer));
    }
}

#[tokio::test]
async fn problem_names_request_id() {
    let bench = Bench::open();
    let answer = bench.send(header(get("/v1/executions/none"), "x-request-id", "abc-123")).await;
    assert_eq!(answer.header("x-request-id"), "abc-123");
    assert_eq!(answer.problem(404, "not-found")["instance"], "urn:millstream:request:abc-123");
    let made = bench.send(header(get("/healthz"), "x-request-id", "not plain!")).await;
    assert_eq!(made.header("x-request-id").len(), 36, "a new one");
}

#[tokio::test]
async fn unknown_method_is_405_with_allow() {
    let bench = Bench::open();
    let answer = bench.send(Request::put("/v1/definitions").body(Body::empty()).unwrap()).await;
    answer.problem(405, "method-not-allowed");
    let allowed = answer.header("allow");
    assert!(allowed.contains("GET") && allowed.contains("POST"), "{allowed}");
}

#[tokio::test]
async fn health_and_openapi_are_served() {
    let bench = Bench::open();
    assert_eq!(bench.get("/healthz").await.json()["status"], "ok");
    let ready = bench.get("/readyz").await.json();
    assert_eq!(ready, json!({"status": "ready", "store": "up", "stream": "up"}));
    let metrics = bench.get("/metrics").await;
    assert!(metrics.text.contains("millstream_up 1"), "{metrics:?}");
    assert!(metrics.header("content-type").starts_with("text/plain"));
    bench.draining.cancel();
    bench.get("/readyz").await.problem(503, "draining");
    assert_eq!(bench.get("/healthz").await.status, 200);
}
