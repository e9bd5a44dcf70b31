//! Time: timers that fire, that are cancelled, that come too late; executions that take too long.

use millstream_testkit::sink::SinkAnswer;
use millstream_testkit::{FleetMode, TestSink, eventually};
use serde_json::json;

use crate::api::text_field;
use crate::definitions::definition_with_sink;
use crate::world::{SOON, start_world};

both_modes!(
    a_timer_fires_its_event,
    leaving_a_state_cancels_its_timers,
    timer_of_left_state_is_ignored,
    execution_timeout_fails_execution,
    timer_fires_after_downtime,
);

const WAITING: &str = r"
name: waiting
initial: waiting
states:
  waiting:
    on: { go: { to: second }, expire: { to: expired } }
    after: [{ in: DELAY, send: expire }]
  second:
    on: { expire: { to: wrong }, finish: { to: done } }
    after: [{ in: 1500ms, send: finish }]
  done: { final: true }
  expired: { final: failed }
  wrong: { final: failed }
";

async fn a_timer_fires_its_event(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(&WAITING.replace("DELAY", "300ms")).await;
    let id = api.start("waiting", json!({})).await;
    let ended = api.execution_in(&id, "failed").await;
    assert_eq!(ended["state"], "expired");
    assert_eq!(api.transition_names(&id).await, ["millstream.start", "expire"]);
    assert!(api.list(&id, "timers").await.is_empty());
}

async fn leaving_a_state_cancels_its_timers(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(&WAITING.replace("DELAY", "1s")).await;
    let id = api.start("waiting", json!({})).await;
    let timers = api.list(&id, "timers").await;
    assert_eq!((timers.len(), text_field(&timers[0], "send").as_str()), (1, "expire"), "{timers:?}");
    api.send_and_settle(&id, "go", json!({})).await;
    let timers = api.list(&id, "timers").await;
    assert_eq!((timers.len(), text_field(&timers[0], "send").as_str()), (1, "finish"), "{timers:?}");
    // The second timer is due after the first would have been: if the first had fired, `wrong` would be next.
    api.execution_in(&id, "completed").await;
    assert_eq!(api.transition_names(&id).await, ["millstream.start", "go", "finish"]);
}

/// The execution is paused while `pay` and then the timer's event arrive, so that both wait; after the
/// resumption `pay` leaves the state that armed the timer.
async fn timer_of_left_state_is_ignored(mode: FleetMode) {
    let sink = TestSink::start().await;
    sink.set_answers("/call", [SinkAnswer::Status(400)]);
    let world = start_world(mode).await;
    let api = &world.api;
    let definition = r"
name: stale
initial: open
states:
  open:
    on: { check: { do: [call] }, pay: { to: paid }, expire: { to: wrong } }
    after: [{ in: 1500ms, send: expire }]
  paid:
    on: { expire: { to: wrong }, ship: { to: done } }
  done: { final: true }
  wrong: { final: failed }
actions:
  call: { http: { method: POST, url: SINK/call }, retry: { attempts: 1 } }
";
    api.apply(&definition_with_sink(definition, &sink)).await;
    let id = api.start("stale", json!({})).await;
    let check = api.send_and_settle(&id, "check", json!({})).await;
    assert_eq!(check["status"], "failed", "{check}");
    api.execution_in(&id, "paused").await;
    let pay = api.send(&id, "pay", json!({})).await;
    let expire = eventually(SOON, || async {
        let events = api.events_of(&id).await;
        events.iter().find(|event| event["name"] == "expire").cloned().ok_or(events)
    })
    .await;
    assert_eq!(expire["status"], "pending", "a paused execution decides nothing: {expire}");
    assert_eq!(api.event(&pay).await["status"], "pending");

    sink.set_answers("/call", [SinkAnswer::Status(200)]);
    api.client
        .post(&format!("/v1/events/{}/retry", text_field(&check, "event_id")), &json!({}))
        .await
        .expect_status(202);
    assert_eq!(api.settled_event(&pay).await["status"], "completed");
    let expire = api.settled_event(&text_field(&expire, "event_id")).await;
    assert_eq!(expire["status"], "rejected", "{expire}");
    api.send_and_settle(&id, "ship", json!({})).await;
    assert_eq!(api.transition_names(&id).await, ["millstream.start", "check", "pay", "ship"]);
}

async fn execution_timeout_fails_execution(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    let definition = "name: slow\ninitial: a\ntimeout: 400ms\nstates:\n  a: { on: { go: { to: b } } }\n  b: { final: true }\n";
    api.apply(definition).await;
    let (slow, quick) = (api.start("slow", json!({})).await, api.start("slow", json!({})).await);
    api.send_and_settle(&quick, "go", json!({})).await;
    let failed = api.execution_in(&slow, "failed").await;
    assert_eq!(failed["state"], "a", "{failed}");
    let late = api.send_and_settle(&slow, "go", json!({})).await;
    assert_eq!(late["status"], "rejected", "{late}");
    assert_eq!(api.execution(&quick).await["status"], "completed");
}

async fn timer_fires_after_downtime(mode: FleetMode) {
    let mut world = start_world(mode).await;
    world.api.apply(&WAITING.replace("DELAY", "1s")).await;
    let id = world.api.start("waiting", json!({})).await;
    world.fleet.kill_ingress();
    if let FleetMode::Fleet { workers } = mode {
        (0..workers).for_each(|index| world.fleet.kill_worker(index));
        world.fleet.start_worker(&[]);
    }
    world.fleet.start_ingress(&[]).await;
    assert_eq!(world.api.execution_in(&id, "failed").await["state"], "expired");
}
