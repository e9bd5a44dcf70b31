//! Signals: events by correlation, delivered, kept, expired, refused, repeated.

use millstream_testkit::{Mode, eventually};
use serde_json::{Value, json};

use crate::api::{Api, text};
use crate::world::{SOON, start};

both_modes!(
    a_signal_is_delivered_to_whoever_has_the_correlation,
    a_signal_is_kept_until_its_execution_starts,
    a_signal_that_waits_too_long_expires,
    a_signal_for_two_is_refused_until_it_says_which,
    a_signal_under_a_key_is_taken_once,
    a_signal_that_nobody_could_take_is_refused,
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

async fn two_definitions(api: &Api) {
    for name in ["order", "invoice"] {
        api.apply(&ORDER.replace("NAME", name)).await;
    }
}

fn hear(correlation: &str, n: u32) -> Value {
    json!({ "correlation": correlation, "name": "hear", "payload": { "n": n } })
}

async fn post(api: &Api, signal: &Value) -> Value {
    api.client.post("/v1/signals", signal).await.expect(202)
}

async fn read(api: &Api, signal: &Value) -> Value {
    api.client.get(&format!("/v1/signals/{}", text(signal, "signal_id"))).await.expect(200)
}

async fn heard(api: &Api, id: &str, numbers: &[u32]) {
    api.execution_until(id, |seen| seen["context"]["heard"] == json!(numbers)).await;
}

async fn a_signal_is_delivered_to_whoever_has_the_correlation(mode: Mode) {
    let world = start(mode).await;
    let api = &world.api;
    two_definitions(api).await;
    api.begin("order", "o-1", json!({ "order": 17 }), &[]).await;
    let reply = api.client.post("/v1/signals", &hear("17", 1)).await;
    let signal = reply.expect(202);
    let (status, to) = (&signal["status"], &signal["execution_id"]);
    assert_eq!((status, to), (&json!("delivered"), &json!("o-1")), "{signal}");
    assert_eq!(
        reply.header("location"),
        Some(format!("/v1/signals/{}", text(&signal, "signal_id")).as_str())
    );
    heard(api, "o-1", &[1]).await;
    let event = api.settled(&text(&signal, "signal_id")).await;
    assert_eq!((&event["status"], &event["name"]), (&json!("completed"), &json!("hear")), "{event}");
    let shown = read(api, &signal).await;
    assert_eq!((&shown["status"], &shown["execution_id"]), (&json!("delivered"), &json!("o-1")), "{shown}");

    // The correlation follows the context.
    let rename = api.send_and_settle("o-1", "rename", json!({ "to": "new" })).await;
    let other = api.client.get(&format!("/v1/signals/{}", text(&rename, "event_id"))).await.problem(404);
    assert!(text(&other, "detail").contains("signal"), "an event that was posted is none: {other}");
    assert_eq!(post(api, &hear("new", 2)).await["status"], "delivered");
    heard(api, "o-1", &[1, 2]).await;
    assert_eq!(
        post(api, &hear("17", 3)).await["status"],
        "buffered",
        "no execution has that correlation any more"
    );
}

async fn a_signal_is_kept_until_its_execution_starts(mode: Mode) {
    let world = start(mode).await;
    let api = &world.api;
    two_definitions(api).await;
    let mut kept = Vec::new();
    for n in 1..=3 {
        let signal = post(api, &hear("o-1", n)).await;
        assert_eq!(signal["status"], "buffered", "{signal}");
        kept.push(signal);
    }
    let shown = read(api, &kept[0]).await;
    assert_eq!((&shown["status"], &shown["correlation"]), (&json!("buffered"), &json!("o-1")), "{shown}");
    assert!(shown["expires_at"].is_string(), "{shown}");
    api.begin("order", "late", json!({ "order": "o-1" }), &[]).await;
    heard(api, "late", &[1, 2, 3]).await;
    assert_eq!(read(api, &kept[0]).await["status"], "delivered");

    // Also for an execution that gets the correlation later in its life.
    let signal = post(api, &hear("o-2", 4)).await;
    assert_eq!(signal["status"], "buffered", "{signal}");
    api.send_and_settle("late", "rename", json!({ "to": "o-2" })).await;
    heard(api, "late", &[1, 2, 3, 4]).await;
}

async fn a_signal_that_waits_too_long_expires(mode: Mode) {
    let world = start(mode).await;
    let api = &world.api;
    two_definitions(api).await;
    let mut short = hear("o-1", 1);
    short["wait_for"] = json!("300ms");
    let short = post(api, &short).await;
    let long = post(api, &hear("o-1", 2)).await;
    eventually(SOON, || async {
        let reply = api.client.get(&format!("/v1/signals/{}", text(&short, "signal_id"))).await;
        if reply.status == 404 || reply.json()["status"] == "expired" { Ok(()) } else { Err(reply.body) }
    })
    .await;
    api.begin("order", "o-1", json!({ "order": "o-1" }), &[]).await;
    heard(api, "o-1", &[2]).await;
    assert_eq!(read(api, &long).await["status"], "delivered");
    let events = api.events_of("o-1").await;
    assert_eq!(events.iter().filter(|event| event["name"] == "hear").count(), 1, "{events:?}");
}

async fn a_signal_for_two_is_refused_until_it_says_which(mode: Mode) {
    let world = start(mode).await;
    let api = &world.api;
    two_definitions(api).await;
    api.begin("order", "o-1", json!({ "order": "x" }), &[]).await;
    api.begin("invoice", "i-1", json!({ "order": "x" }), &[]).await;
    let refused = api.client.post("/v1/signals", &hear("x", 1)).await.problem(409);
    assert!(text(&refused, "detail").contains("2 executions"), "{refused}");
    let mut which = hear("x", 2);
    which["definition"] = json!("invoice");
    assert_eq!(post(api, &which).await["execution_id"], "i-1");
    heard(api, "i-1", &[2]).await;
    // An ended execution does not match.
    api.send_and_settle("i-1", "close", json!({})).await;
    assert_eq!(post(api, &hear("x", 3)).await["execution_id"], "o-1");
    heard(api, "o-1", &[3]).await;
}

async fn a_signal_under_a_key_is_taken_once(mode: Mode) {
    let world = start(mode).await;
    let api = &world.api;
    two_definitions(api).await;
    let key = [("idempotency-key", "s-1")];
    let first = api.client.post_with("/v1/signals", &key, &hear("o-1", 1)).await.expect(202);
    let again = api.client.post_with("/v1/signals", &key, &hear("o-1", 1)).await.expect(202);
    assert_eq!((&again["signal_id"], &again["status"]), (&first["signal_id"], &json!("buffered")), "{again}");
    api.client.post_with("/v1/signals", &key, &hear("o-1", 2)).await.problem(422);
    api.client.post_with("/v1/signals", &key, &hear("o-2", 1)).await.problem(422);
    api.begin("order", "o-1", json!({ "order": "o-1" }), &[]).await;
    heard(api, "o-1", &[1]).await;
    let again = api.client.post_with("/v1/signals", &key, &hear("o-1", 1)).await.expect(202);
    let shown = (&again["signal_id"], &again["status"], &again["execution_id"]);
    assert_eq!(shown, (&first["signal_id"], &json!("delivered"), &json!("o-1")), "{again}");
    // A refusal does not use up the key.
    api.begin("invoice", "i-1", json!({ "order": "o-1" }), &[]).await;
    let key = [("idempotency-key", "s-2")];
    api.client.post_with("/v1/signals", &key, &hear("o-1", 5)).await.problem(409);
    api.send_and_settle("i-1", "close", json!({})).await;
    api.client.post_with("/v1/signals", &key, &hear("o-1", 5)).await.expect(202);
    heard(api, "o-1", &[1, 5]).await;
}

async fn a_signal_that_nobody_could_take_is_refused(mode: Mode) {
    let world = start(mode).await;
    let api = &world.api;
    two_definitions(api).await;
    api.begin("order", "o-1", json!({ "order": "x" }), &[]).await;
    for (signal, path) in [
        (json!({ "correlation": "x", "name": "nonsense" }), "name"),
        (json!({ "correlation": "", "name": "hear" }), "correlation"),
        (json!({ "correlation": "x", "name": "hear", "wait_for": "soon" }), "wait_for"),
        (json!({ "correlation": "x", "name": "hear", "payolad": 1 }), "payolad"),
        (json!({ "name": "hear" }), "correlation"),
    ] {
        let problem = api.client.post("/v1/signals", &signal).await.problem(422);
        let told = problem.to_string();
        assert!(told.contains(path), "{path}: {told}");
    }
    let started =
        api.client.post("/v1/executions", &json!({ "definition": "order", "input": { "order": [1] } })).await;
    assert_eq!(started.status, 422, "{}", started.body);
    assert!(started.body.contains("correlate"), "{}", started.body);
    assert_eq!(api.events_of("o-1").await.len(), 1);
}
