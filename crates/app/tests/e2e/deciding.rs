//! What becomes of an event: guards, rejection, deferral, ended executions.

use millstream_testkit::FleetMode;
use serde_json::json;

use crate::api::text_field;
use crate::definitions::{COUNTER, ORDER};
use crate::world::start_world;

both_modes!(
    first_true_guard_is_taken,
    failing_guard_rejects_event_with_reason,
    whole_numbers_stay_whole,
    unhandled_event_is_rejected,
    unknown_event_is_refused_at_ingress,
    deferred_event_waits_for_its_state,
    deferred_events_are_rejected_at_end,
    events_after_end_are_rejected,
    state_may_fail_execution,
    reentering_a_state_differs_from_staying,
);

async fn first_true_guard_is_taken(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(ORDER).await;
    let id = api.start("order", json!({ "total": 10 })).await;
    let first = api.send_and_settle(&id, "pay", json!({ "amount": 9.5 })).await;
    assert_eq!(first["to_state"], "underpaid", "{first}");
    let second = api.send_and_settle(&id, "pay", json!({ "amount": 0.5 })).await;
    assert_eq!(second["to_state"], "paid", "{second}");
    assert_eq!(api.execution(&id).await["context"]["paid"].as_f64(), Some(10.0));
}

async fn failing_guard_rejects_event_with_reason(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(ORDER).await;
    let id = api.start("order", json!({})).await;
    for payload in [json!({}), json!({ "amount": "much" }), json!(null)] {
        let rejected = api.send_and_settle(&id, "pay", payload).await;
        assert_eq!(rejected["status"], "rejected", "{rejected}");
        assert!(!text_field(&rejected, "error").is_empty(), "{rejected}");
        assert_eq!(rejected["seq"], json!(null), "{rejected}");
    }
    let untouched = api.execution(&id).await;
    assert_eq!((&untouched["state"], &untouched["seq"]), (&json!("received"), &json!(1)));
    assert_eq!(api.send_and_settle(&id, "pay", json!({ "amount": 1 })).await["status"], "completed");
}

async fn whole_numbers_stay_whole(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(COUNTER).await;
    let id = api.start("counter", json!({ "n": 7 })).await;
    api.send_and_settle(&id, "add", json!({ "i": 9_007_199_254_740_993_i64 })).await;
    let context = api.client.get(&format!("/v1/executions/{id}")).await.body;
    assert!(context.contains(r#""n":8,"#), "{context}");
    assert!(context.contains("9007199254740993"), "{context}");
}

async fn unhandled_event_is_rejected(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(ORDER).await;
    let id = api.start("order", json!({})).await;
    api.send_and_settle(&id, "pay", json!({ "amount": 1 })).await;
    let again = api.send_and_settle(&id, "pay", json!({ "amount": 1 })).await;
    assert_eq!(again["status"], "rejected", "{again}");
    assert!(text_field(&again, "error").contains("paid"), "the reason names the state: {again}");
    assert_eq!(api.transition_names(&id).await, ["millstream.start", "pay"]);
}

async fn unknown_event_is_refused_at_ingress(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(ORDER).await;
    let id = api.start("order", json!({})).await;
    for name in ["nonsense", "millstream.start", "millstream.cancel", "Not A Name", ""] {
        api.post_event(&id, name, json!({})).await.expect_problem(422);
    }
    api.post_event("missing", "pay", json!({})).await.expect_problem(404);
    assert!(api.events_of(&id).await.iter().all(|event| event["name"] == "millstream.start"));
}

async fn deferred_event_waits_for_its_state(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(ORDER).await;
    let id = api.start("order", json!({ "total": 10 })).await;
    let ship = api.send(&id, "ship", json!({ "by": "cart" })).await;
    api.event_in(&ship, "deferred").await;
    api.send_and_settle(&id, "pay", json!({ "amount": 4 })).await;
    assert_eq!(api.event(&ship).await["status"], "deferred", "`underpaid` defers it too");
    api.send(&id, "pay", json!({ "amount": 6 })).await;
    let shipped = api.settled_event(&ship).await;
    assert_eq!((&shipped["status"], &shipped["seq"]), (&json!("completed"), &json!(4)), "{shipped}");
    assert_eq!(api.transition_names(&id).await, ["millstream.start", "pay", "pay", "ship"]);
    assert_eq!(api.execution(&id).await["status"], "completed");
}

async fn deferred_events_are_rejected_at_end(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    let text = r"
name: early
initial: a
states:
  a: { on: { end: { to: z }, next: { to: b } }, defer: [late] }
  b: { on: { late: { to: z } } }
  z: { final: true }
";
    api.apply(text).await;
    let id = api.start("early", json!({})).await;
    let late = api.send(&id, "late", json!({})).await;
    api.event_in(&late, "deferred").await;
    api.send(&id, "end", json!({})).await;
    assert_eq!(api.settled_event(&late).await["status"], "rejected");
    assert_eq!(api.transition_names(&id).await, ["millstream.start", "end"]);
}

async fn events_after_end_are_rejected(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(COUNTER).await;
    let id = api.start("counter", json!({})).await;
    api.send_and_settle(&id, "stop", json!({})).await;
    let late = api.send_and_settle(&id, "add", json!({ "i": 1 })).await;
    assert_eq!(late["status"], "rejected", "{late}");
    assert!(text_field(&late, "error").contains("execution ended"), "{late}");
    assert_eq!(api.execution(&id).await["seq"], 2);
}

async fn state_may_fail_execution(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply("name: doomed\ninitial: a\nstates:\n  a: { on: { go: { to: b } } }\n  b: { final: failed }\n")
        .await;
    let id = api.start("doomed", json!({})).await;
    assert_eq!(api.send_and_settle(&id, "go", json!({})).await["status"], "completed");
    assert_eq!(api.execution(&id).await["status"], "failed");
}

async fn reentering_a_state_differs_from_staying(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    let text = r"
name: loop
initial: a
context: { n: 0 }
states:
  a:
    on:
      stay: { set: { n: context.n + 1 } }
      again: { to: a }
      end: { to: z }
    after: [{ in: 1h, send: end }]
  z: { final: true }
";
    api.apply(text).await;
    let id = api.start("loop", json!({})).await;
    let first = api.list(&id, "timers").await;
    assert_eq!(first.len(), 1, "{first:?}");
    let stayed = api.send_and_settle(&id, "stay", json!({})).await;
    assert_eq!((&stayed["from_state"], &stayed["to_state"]), (&json!("a"), &json!("a")), "{stayed}");
    assert_eq!(api.list(&id, "timers").await, first, "an internal transition leaves timers armed");
    api.send_and_settle(&id, "again", json!({})).await;
    let second = api.list(&id, "timers").await;
    assert_eq!(second.len(), 1, "the old timer is gone: {second:?}");
    assert_ne!(second, first, "leaving and entering again arms a new timer");
}
