//! `emit`: events for other executions, by id and by correlation, once each.

use millstream_testkit::FleetMode;
use serde_json::json;

use crate::api::text_field;
use crate::dying::{begin_and_die_at, start_without_workers};
use crate::world::start_world;

both_modes!(
    emitted_event_reaches_execution_by_id,
    emitted_event_reaches_correlation,
    ambiguous_emit_waits_for_person,
    emit_without_target_waits_for_person,
    execution_may_emit_to_itself,
    crashed_emit_is_not_repeated,
);

const SENDER: &str = r#"
name: NAME
initial: a
context: { to: r-1, n: 7 }
states:
  a: { on: { go: { to: b, do: [tell] } } }
  b: { on: { told: { to: z, set: { told: event.payload.result } } } }
  z: { final: true }
actions:
  tell:
    emit: { TARGET: "${context.to}", event: hear, payload: { n: context.n } }
    on_success: told
"#;

const RECEIVER: &str = r#"
name: receiver
initial: listening
correlate: context.name
context: { name: null, heard: [] }
states:
  listening:
    on:
      hear: { set: { heard: "context.heard + [event.payload.n]" } }
      stop: { to: over }
  over: { final: true }
"#;

fn by_id() -> String {
    SENDER.replace("NAME", "by-id").replace("TARGET", "to")
}

fn by_correlation() -> String {
    SENDER.replace("NAME", "by-correlation").replace("TARGET", "correlation")
}

async fn emitted_event_reaches_execution_by_id(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(RECEIVER).await;
    api.apply(&by_id()).await;
    api.start_with_events("receiver", "r-1", json!({}), &[]).await;
    api.start_with_events("by-id", "s-1", json!({}), &["go"]).await;
    let sent = api.execution_in("s-1", "completed").await;
    assert_eq!(sent["context"]["told"]["execution_id"], "r-1", "{sent}");
    api.execution_until("r-1", |seen| seen["context"]["heard"] == json!([7])).await;
    let event = api.event(&text_field(&sent["context"]["told"], "event_id")).await;
    assert_eq!((&event["name"], &event["actor"]), (&json!("hear"), &json!("action:tell")), "{event}");
    assert_eq!(event["execution_id"], "r-1", "{event}");
}

async fn emitted_event_reaches_correlation(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(RECEIVER).await;
    api.apply(&by_correlation()).await;
    api.start_with_events("receiver", "early", json!({ "name": "ada" }), &[]).await;
    api.start_with_events("by-correlation", "s-1", json!({ "to": "ada" }), &["go"]).await;
    let sent = api.execution_in("s-1", "completed").await;
    assert_eq!(sent["context"]["told"]["execution_id"], "early", "{sent}");
    api.execution_until("early", |seen| seen["context"]["heard"] == json!([7])).await;
    let path = format!("/v1/signals/{}", text_field(&sent["context"]["told"], "event_id"));
    assert_eq!(api.client.get(&path).await.expect_status(200)["status"], "delivered", "it went as a signal");

    for (sender, n) in [("s-2", 1), ("s-3", 2)] {
        api.start_with_events("by-correlation", sender, json!({ "to": "bob", "n": n }), &["go"]).await;
        let sent = api.execution_in(sender, "completed").await;
        assert_eq!(sent["context"]["told"]["execution_id"], json!(null), "it is kept: {sent}");
    }
    api.start_with_events("receiver", "late", json!({ "name": "bob" }), &[]).await;
    let heard = api.execution_until("late", |seen| seen["seq"] == 3).await;
    assert_eq!(heard["context"]["heard"], json!([1, 2]), "in the order in which they were sent");
}

async fn ambiguous_emit_waits_for_person(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(RECEIVER).await;
    api.apply(&by_correlation()).await;
    for twin in ["twin-1", "twin-2"] {
        api.start_with_events("receiver", twin, json!({ "name": "eve" }), &[]).await;
    }
    api.start_with_events("by-correlation", "s-1", json!({ "to": "eve" }), &["go"]).await;
    let incident = api.open_incident("s-1").await;
    assert_eq!((&incident["class"], &incident["action"]), (&json!("target"), &json!("tell")), "{incident}");
    let reason = text_field(&incident, "reason");
    assert!(reason.contains("emit.correlation") && reason.contains("2 executions"), "{reason}");
    assert_eq!(api.execution("s-1").await["status"], "paused");

    api.send_and_settle("twin-1", "stop", json!({})).await;
    api.resolve(&incident, "retry", json!({})).await;
    let sent = api.execution_in("s-1", "completed").await;
    assert_eq!(sent["context"]["told"]["execution_id"], "twin-2", "{sent}");
    api.execution_until("twin-2", |seen| seen["context"]["heard"] == json!([7])).await;
    assert_eq!(api.execution("twin-1").await["context"]["heard"], json!([]));
}

async fn emit_without_target_waits_for_person(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(RECEIVER).await;
    api.apply(&by_id()).await;
    api.start_with_events("by-id", "s-1", json!({ "to": "r-9" }), &["go"]).await;
    let incident = api.open_incident("s-1").await;
    assert_eq!(incident["class"], "target", "{incident}");
    assert_eq!(incident["attempts"], 1, "no use in trying again: {incident}");
    assert!(text_field(&incident, "reason").contains(r#"there is no execution "r-9""#), "{incident}");

    api.start_with_events("by-id", "s-2", json!({ "to": "no such id" }), &["go"]).await;
    let impossible = text_field(&api.open_incident("s-2").await, "reason");
    assert!(impossible.contains("emit.to") && impossible.contains("no such id"), "{impossible}");

    for (name, sender) in [("by-id", by_id()), ("by-correlation", by_correlation())] {
        api.apply(&sender.replace(name, "mumbling").replace("event: hear", "event: mumble")).await;
        api.start_with_events("receiver", name, json!({ "name": name }), &[]).await;
        api.start_with_events("mumbling", &format!("m-{name}"), json!({ "to": name }), &["go"]).await;
        let reason = text_field(&api.open_incident(&format!("m-{name}")).await, "reason");
        assert!(reason.contains(r#"no state of "receiver" mentions "mumble""#), "{reason}");
    }

    api.start_with_events("receiver", "r-9", json!({}), &[]).await;
    api.resolve(&incident, "retry", json!({})).await;
    api.execution_in("s-1", "completed").await;
    api.execution_until("r-9", |seen| seen["context"]["heard"] == json!([7])).await;
}

async fn execution_may_emit_to_itself(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    let talker = SENDER
        .replace("NAME", "talker")
        .replace("TARGET", "to")
        .replace("  b: { on: {", "  b: { on: { hear: { set: { heard: event.payload.n }, do: [] },");
    api.apply(&talker.replace(
        "told: { to: z, set: { told: event.payload.result } }",
        "told: { set: { told: true } }, end: { to: z }",
    ))
    .await;
    api.start_with_events("talker", "t-1", json!({ "to": "t-1" }), &["go"]).await;
    let seen = api.execution_until("t-1", |seen| seen["seq"] == 4).await;
    assert_eq!((&seen["context"]["heard"], &seen["context"]["told"]), (&json!(7), &json!(true)), "{seen}");
}

async fn crashed_emit_is_not_repeated(mode: FleetMode) {
    let mut world = start_without_workers(mode).await;
    world.api.apply(RECEIVER).await;
    world.api.apply(&by_id()).await;
    world.api.start_with_events("receiver", "r-1", json!({ "name": "r-1" }), &[]).await;
    begin_and_die_at(&mut world, "worker.before-settle", "by-id", "s-1").await;
    let api = &world.api;
    api.execution_in("s-1", "completed").await;
    let tell = api.latest_action("s-1", "tell").await.expect("the action");
    assert!(tell["attempts"].as_i64().unwrap() >= 2, "the crash did bite: {tell}");
    assert_eq!(api.execution("r-1").await["context"]["heard"], json!([7]));
    let heard: Vec<_> =
        api.events_of("r-1").await.into_iter().filter(|event| event["name"] == "hear").collect();
    assert_eq!(heard.len(), 1, "{heard:?}");
}
