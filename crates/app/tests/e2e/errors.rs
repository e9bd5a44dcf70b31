//! Every refusal is a problem document with the right status, also those of the router itself.

use millstream_testkit::client::send_request;
use millstream_testkit::{FleetMode, eventually};
use reqwest::Method;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::api::text_field;
use crate::definitions::{COUNTER, ORDER};
use crate::world::{SOON, start_with, start_world};

both_modes!(
    unknown_routes_answer_with_problems,
    unreadable_request_names_its_place,
    oversized_payload_is_413,
    deeply_nested_payloads_are_refused,
    foreign_host_is_refused_without_keys,
    concurrent_requests_beyond_limit_are_429,
    oversized_context_rejects_event,
);

async fn unknown_routes_answer_with_problems(mode: FleetMode) {
    let world = start_world(mode).await;
    let client = &world.api.client;
    for path in ["/", "/v1", "/v1/nothing", "/v1/executions/a/b/c/d"] {
        client.get(path).await.expect_problem(404);
    }
    for path in
        ["/v1/executions/missing", "/v1/events/018f0000-0000-7000-8000-000000000000", "/v1/events/not-an-id"]
    {
        client.get(path).await.expect_problem(404);
    }
    for (method, path) in
        [(Method::DELETE, "/v1/executions"), (Method::PUT, "/v1/definitions"), (Method::POST, "/healthz")]
    {
        let reply = send_request(client.request(method, path)).await;
        reply.expect_problem(405);
        assert!(reply.header("allow").is_some(), "{path}");
    }
}

async fn unreadable_request_names_its_place(mode: FleetMode) {
    let world = start_world(mode).await;
    let (api, client) = (&world.api, &world.api.client);
    api.apply(ORDER).await;
    let id = api.start("order", json!({})).await;
    let events = format!("/v1/executions/{id}/events");
    let unknown = client.post(&events, &json!({ "name": "pay", "colour": 1 })).await.expect_problem(422);
    assert!(unknown.to_string().contains("colour"), "the unknown field is named: {unknown}");
    client.post(&events, &json!({})).await.expect_problem(422);
    client.post(&events, &json!({ "name": 7 })).await.expect_problem(422);
    client.post_raw(&events, "application/json", "{\"name\":").await.expect_problem(400);
    client.post_raw(&events, "text/csv", "pay").await.expect_problem(415);
    client.post_raw("/v1/definitions", "application/yaml", "name: [").await.expect_problem(422);
    api.post_event_with(&id, &[("prefer", "wait=soon")], "pay", json!({})).await.expect_problem(400);
    assert_eq!(api.execution(&id).await["seq"], 1);
}

async fn oversized_payload_is_413(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(COUNTER).await;
    let id = api.start("counter", json!({})).await;
    let large = "x".repeat(256 * 1024);
    api.post_event(&id, "add", json!({ "i": large })).await.expect_problem(413);
    let body = json!({ "definition": "counter", "input": { "large": large } });
    api.client.post("/v1/executions", &body).await.expect_problem(413);
    let fits = "x".repeat(200 * 1024);
    let accepted = api.post_event(&id, "stop", json!({ "i": fits })).await.expect_status(202);
    assert_eq!(api.settled_event(&text_field(&accepted, "event_id")).await["status"], "completed");
}

async fn deeply_nested_payloads_are_refused(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(COUNTER).await;
    let id = api.start("counter", json!({})).await;
    let nested =
        |depth: usize| format!(r#"{{"name":"add","payload":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
    let events = format!("/v1/executions/{id}/events");
    for depth in [100, 100_000] {
        let reply = api.client.post_raw(&events, "application/json", nested(depth)).await;
        assert!((400..500).contains(&reply.status), "{} {}", reply.status, reply.body);
        reply.expect_problem(reply.status);
    }
    api.client.post_raw(&events, "application/json", nested(50)).await.expect_status(202);
}

async fn foreign_host_is_refused_without_keys(mode: FleetMode) {
    let world = start_world(mode).await;
    let request = world.api.client.request(Method::GET, "/v1/executions");
    send_request(request.header("host", "attacker.example")).await.expect_problem(403);
    let request = world.api.client.request(Method::GET, "/v1/executions");
    send_request(request.header("origin", "http://attacker.example")).await.expect_problem(403);
}

/// One request that never finishes its body occupies the only slot.
async fn concurrent_requests_beyond_limit_are_429(mode: FleetMode) {
    let world = start_with(mode, &[("MILLSTREAM_INGRESS__MAX_IN_FLIGHT", "1")]).await;
    let client = &world.api.client;
    let address = world.fleet.url().replace("http://", "");
    let mut slow = TcpStream::connect(&address).await.unwrap();
    let head = format!(
        "POST /v1/definitions HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{{"
    );
    slow.write_all(head.as_bytes()).await.unwrap();
    // Another request before it has its slot could take that slot away.
    eventually(SOON, || async {
        let metrics = client.get("/metrics").await.body;
        if metrics.contains("millstream_http_in_flight 1") { Ok(()) } else { Err(metrics) }
    })
    .await;
    let busy = client.get("/v1/executions").await;
    busy.expect_problem(429);
    assert!(busy.header("retry-after").is_some());
    assert_eq!(client.get("/healthz").await.status, 200, "health has no part in it");
    drop(slow);
    eventually(SOON, || async {
        let reply = client.get("/v1/executions").await;
        if reply.status == 200 { Ok(()) } else { Err(reply) }
    })
    .await;
}

async fn oversized_context_rejects_event(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(COUNTER).await;
    let id = api.start("counter", json!({})).await;
    let piece = "x".repeat(150 * 1024);
    assert_eq!(api.send_and_settle(&id, "add", json!({ "i": piece })).await["status"], "completed");
    let second = api.send_and_settle(&id, "add", json!({ "i": piece })).await;
    assert_eq!(second["status"], "rejected", "{}", second["error"]);
    assert_eq!(api.execution(&id).await["context"]["n"], 1);
}
