//! HTTP actions: order of a graph, what an attempt carries, retries, outcomes, forbidden targets.

use std::time::{Duration, Instant, SystemTime};

use chrono::{DateTime, Utc};
use millstream_testkit::sink::SinkAnswer;
use millstream_testkit::{FleetMode, TestSink};
use serde_json::{Value, json};

use crate::api::text_field;
use crate::definitions::{CHARGE, definition_with_sink};
use crate::world::start_world;

both_modes!(
    action_order_holds_through_failures,
    action_result_arrives_as_event,
    permanent_action_failure_is_not_retried,
    retry_after_is_honoured,
    retry_after_may_be_a_date,
    hanging_attempt_times_out_and_retries,
    forbidden_addresses_are_never_called,
    actions_of_final_transition_run,
    trace_reaches_action_target,
    concurrent_settlements_leave_no_event,
);

const GRAPH: &str = r#"
name: graph
initial: ready
states:
  ready: { on: { go: { to: working, do: [left, right, join, tell] } } }
  working: { on: { joined: { to: done } } }
  done: { final: true }
actions:
  left:
    http: { method: POST, url: "SINK/left", body: { side: "'left'" } }
    retry: { attempts: 5, backoff: 20ms, max: 50ms }
  right:
    http: { method: PUT, url: "SINK/right", headers: { x-order: "${context.order}" } }
  join:
    http: { method: POST, url: "SINK/join", body: { left: results.left.status, order: context.order } }
    needs: [left, right]
    on_success: joined
  tell: { log: "joined", needs: [join] }
"#;

async fn action_order_holds_through_failures(mode: FleetMode) {
    let sink = TestSink::start().await;
    sink.set_answers(
        "/left",
        [SinkAnswer::Status(500), SinkAnswer::Status(503), SinkAnswer::Json(201, json!({ "v": 7 }))],
    );
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(&definition_with_sink(GRAPH, &sink)).await;
    let id = api.start("graph", json!({ "order": "o-9" })).await;
    let go = api.send_and_settle(&id, "go", json!({})).await;
    assert_eq!(go["status"], "completed", "{go}");
    api.execution_in(&id, "completed").await;

    let (left, right, join) = (sink.calls_to("/left"), sink.calls_to("/right"), sink.calls_to("/join"));
    assert_eq!((left.len(), right.len(), join.len()), (3, 1, 1));
    assert!(join[0].at > left[2].at && join[0].at > right[0].at, "join waits for both");
    assert_eq!(left[0].json(), json!({ "side": "left" }));
    assert_eq!((right[0].method.as_str(), right[0].header("x-order")), ("PUT", Some("o-9")));
    assert_eq!(join[0].json(), json!({ "left": 201, "order": "o-9" }));

    let keys: Vec<_> =
        left.iter().map(|call| call.header("idempotency-key").expect("a key").to_owned()).collect();
    assert!(keys.iter().all(|key| *key == keys[0]), "the same key on every attempt: {keys:?}");
    assert_ne!(right[0].header("idempotency-key"), Some(keys[0].as_str()));
    assert!(left.iter().all(|call| call.header("millstream-fencing-token").is_some()));

    let actions = api.list(&id, "actions").await;
    let status = |name: &str| -> (String, Value) {
        let action = actions.iter().find(|action| action["action"] == name).unwrap();
        (text_field(action, "status"), action["attempts"].clone())
    };
    assert_eq!(status("left"), ("succeeded".into(), json!(3)));
    assert_eq!(status("tell").0, "succeeded");
}

async fn action_result_arrives_as_event(mode: FleetMode) {
    let sink = TestSink::start().await;
    sink.set_answers(
        "/charge/a%20b",
        [SinkAnswer::Status(500), SinkAnswer::Json(200, json!({ "receipt": 5 }))],
    );
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(&definition_with_sink(CHARGE, &sink)).await;
    let id = api.start("charge", json!({ "order_id": "a b" })).await;
    api.send_and_settle(&id, "pay", json!({ "amount": 3 })).await;
    api.execution_in(&id, "completed").await;
    assert_eq!(sink.recorded_calls()[0].json(), json!({ "amount": 3 }), "inputs are rendered with the event");
    assert_eq!(sink.recorded_calls()[0].path, "/charge/a%20b", "parts of an address are encoded");

    let history = api.list(&id, "history").await;
    assert_eq!(api.transition_names(&id).await, ["millstream.start", "pay", "charged"]);
    let outcome = &history[2]["payload"];
    assert_eq!((&outcome["action"], &outcome["attempts"]), (&json!("charge"), &json!(2)), "{outcome}");
    assert_eq!(outcome["result"]["status"], 200, "{outcome}");
    assert_eq!(outcome["result"]["body"], json!({ "receipt": 5 }), "{outcome}");
    assert_eq!(outcome["key"].as_str(), sink.recorded_calls()[0].header("idempotency-key"), "{outcome}");
}

async fn permanent_action_failure_is_not_retried(mode: FleetMode) {
    let sink = TestSink::start().await;
    sink.set_answers("/charge/1", [SinkAnswer::Status(404)]);
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(&definition_with_sink(CHARGE, &sink)).await;
    let id = api.start("charge", json!({ "order_id": 1 })).await;
    let pay = api.send_and_settle(&id, "pay", json!({ "amount": 3 })).await;
    assert_eq!(pay["status"], "completed", "`on_failure` handles it: {pay}");
    assert_eq!(api.execution_in(&id, "failed").await["state"], "broken");
    assert_eq!(sink.recorded_calls().len(), 1);
    let outcome = &api.list(&id, "history").await[2]["payload"];
    assert_eq!((&outcome["error"]["status"], &outcome["attempts"]), (&json!(404), &json!(1)), "{outcome}");
}

async fn retry_after_is_honoured(mode: FleetMode) {
    let sink = TestSink::start().await;
    sink.set_answers(
        "/charge/1",
        [SinkAnswer::Header(429, "retry-after", "1".into()), SinkAnswer::Status(200)],
    );
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(&definition_with_sink(CHARGE, &sink)).await;
    let id = api.start("charge", json!({ "order_id": 1 })).await;
    api.send_and_settle(&id, "pay", json!({ "amount": 3 })).await;
    let calls = sink.recorded_calls();
    assert_eq!(calls.len(), 2);
    let waited = calls[1].at - calls[0].at;
    assert!(waited >= Duration::from_millis(990), "the next attempt came after {waited:?}");
}

async fn retry_after_may_be_a_date(mode: FleetMode) {
    let sink = TestSink::start().await;
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(&definition_with_sink(CHARGE, &sink).replace("max: 100ms", "max: 5s")).await;
    let id = api.start("charge", json!({ "order_id": 1 })).await;
    let scripted = Instant::now();
    let until = DateTime::<Utc>::from(SystemTime::now() + Duration::from_secs(4));
    let date = until.format("%a, %d %b %Y %H:%M:%S GMT").to_string();
    sink.set_answers("/charge/1", [SinkAnswer::Header(503, "retry-after", date), SinkAnswer::Status(200)]);
    api.send_and_settle(&id, "pay", json!({ "amount": 3 })).await;
    let calls = sink.recorded_calls();
    assert_eq!(calls.len(), 2);
    let waited = calls[1].at - scripted;
    assert!(waited >= Duration::from_secs(3), "a date has whole seconds; the attempt came after {waited:?}");
}

async fn hanging_attempt_times_out_and_retries(mode: FleetMode) {
    let sink = TestSink::start().await;
    sink.set_answers("/charge/1", [SinkAnswer::Hold(200), SinkAnswer::Status(200)]);
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(&definition_with_sink(CHARGE, &sink).replace("timeout: 10s", "timeout: 300ms")).await;
    let id = api.start("charge", json!({ "order_id": 1 })).await;
    let pay = api.send_and_settle(&id, "pay", json!({ "amount": 3 })).await;
    assert_eq!(pay["status"], "completed", "{pay}");
    assert_eq!(sink.recorded_calls().len(), 2);
    api.execution_in(&id, "completed").await;
}

/// Loopback is allowed here; the link-local address of cloud metadata and private networks are not,
/// neither directly nor behind a redirect.
async fn forbidden_addresses_are_never_called(mode: FleetMode) {
    let sink = TestSink::start().await;
    sink.set_answers(
        "/charge/1",
        [SinkAnswer::Header(302, "location", "http://169.254.169.254/latest".into())],
    );
    let world = start_world(mode).await;
    let api = &world.api;
    let direct = definition_with_sink(CHARGE, &sink)
        .replace(&sink.url("/charge"), "http://10.255.255.1/charge")
        .replace("name: charge", "name: direct");
    api.apply(&direct).await;
    api.apply(&definition_with_sink(CHARGE, &sink)).await;
    for definition in ["direct", "charge"] {
        let id = api.start(definition, json!({ "order_id": 1 })).await;
        api.send_and_settle(&id, "pay", json!({ "amount": 3 })).await;
        assert_eq!(api.execution_in(&id, "failed").await["state"], "broken");
        let outcome = api.list(&id, "history").await[2]["payload"].clone();
        assert_eq!(outcome["error"]["class"], "forbidden", "{outcome}");
        assert_eq!(outcome["attempts"], 1, "no use in trying again: {outcome}");
    }
    assert_eq!(sink.recorded_calls().len(), 1);
}

async fn actions_of_final_transition_run(mode: FleetMode) {
    let sink = TestSink::start().await;
    let world = start_world(mode).await;
    let api = &world.api;
    let definition = r"
name: farewell
initial: a
states:
  a: { on: { end: { to: z, do: [wave] } } }
  z: { final: true }
actions:
  wave: { http: { method: POST, url: SINK/wave } }
";
    api.apply(&definition_with_sink(definition, &sink)).await;
    let id = api.start("farewell", json!({})).await;
    assert_eq!(api.send_and_settle(&id, "end", json!({})).await["status"], "completed");
    assert_eq!(sink.calls_to("/wave").len(), 1);
    assert_eq!(api.execution(&id).await["status"], "completed");
}

async fn trace_reaches_action_target(mode: FleetMode) {
    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    let sink = TestSink::start().await;
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(&definition_with_sink(CHARGE, &sink)).await;
    let id = api.start("charge", json!({ "order_id": 1 })).await;
    let parent = format!("00-{TRACE}-00f067aa0ba902b7-01");
    let headers = [("traceparent", parent.as_str()), ("prefer", "wait=20")];
    api.post_event_with(&id, &headers, "pay", json!({ "amount": 1 })).await.expect_status(200);
    let sent = sink.recorded_calls()[0].header("traceparent").expect("a traceparent").to_owned();
    assert!(sent.contains(TRACE) && sent != parent, "the same trace, a span of its own: {sent}");
}

/// Many pairs of actions that end in the same instant: each must see the other.
async fn concurrent_settlements_leave_no_event(mode: FleetMode) {
    const EXECUTIONS: usize = 100;
    let world = start_world(mode).await;
    let api = &world.api;
    let definition = r"
name: pairs
initial: a
states:
  a: { on: { go: { do: [one, two, three, last] }, end: { to: z } } }
  z: { final: true }
actions:
  one: { noop: 1 }
  two: { noop: 2 }
  three: { noop: 3 }
  last: { noop: results.one, needs: [one, two, three] }
";
    api.apply(definition).await;
    let starts: Vec<_> = (0..EXECUTIONS)
        .map(|i| json!({ "definition": "pairs", "execution_id": format!("p-{i}"), "events": [{ "name": "go" }, { "name": "go" }] }))
        .collect();
    let reply = api.client.post("/v1/executions", &json!(starts)).await;
    assert!(reply.status < 300, "{}", reply.body);
    for i in 0..EXECUTIONS {
        for event in api.events_of(&format!("p-{i}")).await.iter().filter(|event| event["name"] == "go") {
            let settled = api.settled_event(&text_field(event, "event_id")).await;
            assert_eq!(settled["status"], "completed", "{settled}");
        }
    }
}
