//! Signals: events by correlation, delivered, kept, expired, refused, repeated.

use millstream_testkit::{FleetMode, eventually};
use serde_json::{Value, json};

use crate::api::{E2eApi, text_field};
use crate::world::{SOON, start_world};

both_modes!(
    signal_reaches_correlated_execution,
    signal_is_buffered_until_execution_starts,
    buffered_signal_expires,
    ambiguous_signal_is_refused,
    signal_key_is_idempotent,
    signal_without_receiver_is_refused,
);

const ORDER: &str = r#"
name: NAME
initial: open
correlate: context.order
context: { order: null, heard: [] }
states:
  open:
    on:
      hear: { set: { heard: "context.heard + [event.payload.n]" } }
      rename: { set: { order: event.payload.to } }
      close: { to: closed }
  closed: { final: true }
"#;

async fn two_definitions(api: &E2eApi) {
    for name in ["order", "invoice"] {
        api.apply(&ORDER.replace("NAME", name)).await;
    }
}

fn signal_body(correlation: &str, n: u32) -> Value {
    json!({ "correlation": correlation, "name": "hear", "payload": { "n": n } })
}

async fn post_signal(api: &E2eApi, signal: &Value) -> Value {
    api.client.post("/v1/signals", signal).await.expect_status(202)
}

async fn read_signal(api: &E2eApi, signal: &Value) -> Value {
    api.client.get(&format!("/v1/signals/{}", text_field(signal, "signal_id"))).await.expect_status(200)
}

async fn wait_until_received(api: &E2eApi, id: &str, numbers: &[u32]) {
    api.execution_until(id, |seen| seen["context"]["heard"] == json!(numbers)).await;
}

async fn signal_reaches_correlated_execution(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    two_definitions(api).await;
    api.start_with_events("order", "o-1", json!({ "order": 17 }), &[]).await;
    let reply = api.client.post("/v1/signals", &signal_body("17", 1)).await;
    let signal = reply.expect_status(202);
    let (status, to) = (&signal["status"], &signal["execution_id"]);
    assert_eq!((status, to), (&json!("delivered"), &json!("o-1")), "{signal}");
    assert_eq!(
        reply.header("location"),
        Some(format!("/v1/signals/{}", text_field(&signal, "signal_id")).as_str())
    );
    wait_until_received(api, "o-1", &[1]).await;
    let event = api.settled_event(&text_field(&signal, "signal_id")).await;
    assert_eq!((&event["status"], &event["name"]), (&json!("completed"), &json!("hear")), "{event}");
    let shown = read_signal(api, &signal).await;
    assert_eq!((&shown["status"], &shown["execution_id"]), (&json!("delivered"), &json!("o-1")), "{shown}");

    // The correlation follows the context.
    let rename = api.send_and_settle("o-1", "rename", json!({ "to": "new" })).await;
    let other =
        api.client.get(&format!("/v1/signals/{}", text_field(&rename, "event_id"))).await.expect_problem(404);
    assert!(text_field(&other, "detail").contains("signal"), "an event that was posted is none: {other}");
    assert_eq!(post_signal(api, &signal_body("new", 2)).await["status"], "delivered");
    wait_until_received(api, "o-1", &[1, 2]).await;
    assert_eq!(
        post_signal(api, &signal_body("17", 3)).await["status"],
        "buffered",
        "no execution has that correlation any more"
    );
}

async fn signal_is_buffered_until_execution_starts(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    two_definitions(api).await;
    let mut kept = Vec::new();
    for n in 1..=3 {
        let signal = post_signal(api, &signal_body("o-1", n)).await;
        assert_eq!(signal["status"], "buffered", "{signal}");
        kept.push(signal);
    }
    let shown = read_signal(api, &kept[0]).await;
    assert_eq!((&shown["status"], &shown["correlation"]), (&json!("buffered"), &json!("o-1")), "{shown}");
    assert!(shown["expires_at"].is_string(), "{shown}");
    api.start_with_events("order", "late", json!({ "order": "o-1" }), &[]).await;
    wait_until_received(api, "late", &[1, 2, 3]).await;
    assert_eq!(read_signal(api, &kept[0]).await["status"], "delivered");

    // Also for an execution that gets the correlation later in its life.
    let signal = post_signal(api, &signal_body("o-2", 4)).await;
    assert_eq!(signal["status"], "buffered", "{signal}");
    api.send_and_settle("late", "rename", json!({ "to": "o-2" })).await;
    wait_until_received(api, "late", &[1, 2, 3, 4]).await;
}

async fn buffered_signal_expires(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    two_definitions(api).await;
    let mut short = signal_body("o-1", 1);
    short["wait_for"] = json!("300ms");
    let short = post_signal(api, &short).await;
    let long = post_signal(api, &signal_body("o-1", 2)).await;
    eventually(SOON, || async {
        let reply = api.client.get(&format!("/v1/signals/{}", text_field(&short, "signal_id"))).await;
        if reply.status == 404 || reply.json()["status"] == "expired" { Ok(()) } else { Err(reply.body) }
    })
    .await;
    api.start_with_events("order", "o-1", json!({ "order": "o-1" }), &[]).await;
    wait_until_received(api, "o-1", &[2]).await;
    assert_eq!(read_signal(api, &long).await["status"], "delivered");
    let events = api.events_of("o-1").await;
    assert_eq!(events.iter().filter(|event| event["name"] == "hear").count(), 1, "{events:?}");
}

async fn ambiguous_signal_is_refused(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    two_definitions(api).await;
    api.start_with_events("order", "o-1", json!({ "order": "x" }), &[]).await;
    api.start_with_events("invoice", "i-1", json!({ "order": "x" }), &[]).await;
    let refused = api.client.post("/v1/signals", &signal_body("x", 1)).await.expect_problem(409);
    assert!(text_field(&refused, "detail").contains("2 executions"), "{refused}");
    let mut which = signal_body("x", 2);
    which["definition"] = json!("invoice");
    assert_eq!(post_signal(api, &which).await["execution_id"], "i-1");
    wait_until_received(api, "i-1", &[2]).await;
    // An ended execution does not match.
    api.send_and_settle("i-1", "close", json!({})).await;
    assert_eq!(post_signal(api, &signal_body("x", 3)).await["execution_id"], "o-1");
    wait_until_received(api, "o-1", &[3]).await;
}

async fn signal_key_is_idempotent(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    two_definitions(api).await;
    let key = [("idempotency-key", "s-1")];
    let first = api.client.post_with("/v1/signals", &key, &signal_body("o-1", 1)).await.expect_status(202);
    let again = api.client.post_with("/v1/signals", &key, &signal_body("o-1", 1)).await.expect_status(202);
    assert_eq!((&again["signal_id"], &again["status"]), (&first["signal_id"], &json!("buffered")), "{again}");
    api.client.post_with("/v1/signals", &key, &signal_body("o-1", 2)).await.expect_problem(422);
    api.client.post_with("/v1/signals", &key, &signal_body("o-2", 1)).await.expect_problem(422);
    api.start_with_events("order", "o-1", json!({ "order": "o-1" }), &[]).await;
    wait_until_received(api, "o-1", &[1]).await;
    let again = api.client.post_with("/v1/signals", &key, &signal_body("o-1", 1)).await.expect_status(202);
    let shown = (&again["signal_id"], &again["status"], &again["execution_id"]);
    assert_eq!(shown, (&first["signal_id"], &json!("delivered"), &json!("o-1")), "{again}");
    // A refusal does not use up the key.
    api.start_with_events("invoice", "i-1", json!({ "order": "o-1" }), &[]).await;
    let key = [("idempotency-key", "s-2")];
    api.client.post_with("/v1/signals", &key, &signal_body("o-1", 5)).await.expect_problem(409);
    api.send_and_settle("i-1", "close", json!({})).await;
    api.client.post_with("/v1/signals", &key, &signal_body("o-1", 5)).await.expect_status(202);
    wait_until_received(api, "o-1", &[1, 5]).await;
}

async fn signal_without_receiver_is_refused(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    two_definitions(api).await;
    api.start_with_events("order", "o-1", json!({ "order": "x" }), &[]).await;
    for (signal, path) in [
        (json!({ "correlation": "x", "name": "nonsense" }), "name"),
        (json!({ "correlation": "", "name": "hear" }), "correlation"),
        (json!({ "correlation": "x", "name": "hear", "wait_for": "soon" }), "wait_for"),
        (json!({ "correlation": "x", "name": "hear", "payolad": 1 }), "payolad"),
        (json!({ "name": "hear" }), "correlation"),
    ] {
        let problem = api.client.post("/v1/signals", &signal).await.expect_problem(422);
        let told = problem.to_string();
        assert!(told.contains(path), "{path}: {told}");
    }
    let started =
        api.client.post("/v1/executions", &json!({ "definition": "order", "input": { "order": [1] } })).await;
    assert_eq!(started.status, 422, "{}", started.body);
    assert!(started.body.contains("correlate"), "{}", started.body);
    assert_eq!(api.events_of("o-1").await.len(), 1);
}
