//! `wait`: actions that succeed at a given time, whichever workers are alive then.

use std::time::Instant;

use millstream_testkit::sink::SinkAnswer;
use millstream_testkit::{FleetMode, TestSink, eventually};
use serde_json::json;

use crate::api::text_field;
use crate::definitions::definition_with_sink;
use crate::world::{SOON, start_world};

both_modes!(
    wait_action_ends_on_time,
    wait_action_ends_despite_downtime,
    wait_duration_begins_after_its_needs,
    invalid_wait_time_waits_for_person,
    wait_action_ends_with_execution,
);

const WAITING: &str = r"
name: patient
initial: a
context: { at: null }
states:
  a: { on: { go: { to: b, do: [rest] } } }
  b: { on: { rested: { to: z } } }
  z: { final: true }
actions:
  rest: { wait: WHEN, on_success: rested, retry: { attempts: 1 } }
";

async fn wait_action_ends_on_time(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    let kinds = [
        ("a-while", "{ for: 700ms }"),
        ("a-sum", r#"{ until: 'now + duration("700ms")' }"#),
        ("a-text", "{ until: context.at }"),
    ];
    for (name, when) in kinds {
        api.apply(&WAITING.replace("patient", name).replace("WHEN", when)).await;
        // A time in the past, in the payload.
        let begun = Instant::now();
        api.start_with_events(name, name, json!({ "at": "2020-02-29T12:00:00Z" }), &["go"]).await;
        api.execution_in(name, "completed").await;
        let took = begun.elapsed().as_millis();
        assert_eq!(took >= 700, name != "a-text", "{name} took {took} ms");
        let rest = api.latest_action(name, "rest").await.expect("the action");
        assert_eq!((&rest["status"], &rest["attempts"]), (&json!("succeeded"), &json!(1)), "{rest}");
        assert!(rest["result"]["until"].is_string(), "{rest}");
    }
}

async fn wait_action_ends_despite_downtime(mode: FleetMode) {
    let mut world = start_world(mode).await;
    world.api.apply(&WAITING.replace("WHEN", "{ for: 1500ms }")).await;
    let begun = Instant::now();
    world.api.start_with_events("patient", "p-1", json!({}), &["go"]).await;
    eventually(SOON, || async {
        let rest = world.api.latest_action("p-1", "rest").await;
        match &rest {
            Some(seen) if seen["status"] == "ready" && seen["next_attempt_at"].is_string() => Ok(()),
            _ => Err(rest),
        }
    })
    .await;
    match mode {
        FleetMode::Embedded => {
            world.fleet.kill_ingress();
            world.fleet.start_ingress(&[]).await;
        }
        FleetMode::Fleet { workers } => {
            (0..workers).for_each(|index| world.fleet.kill_worker(index));
            world.fleet.start_worker(&[]);
        }
    }
    world.api.execution_in("p-1", "completed").await;
    assert!(begun.elapsed().as_millis() >= 1500);
    let rest = world.api.latest_action("p-1", "rest").await.expect("the action");
    assert_eq!(rest["attempts"], 1, "waiting is no attempt: {rest}");
}

async fn wait_duration_begins_after_its_needs(mode: FleetMode) {
    let sink = TestSink::start().await;
    sink.set_answers("/first", [SinkAnswer::Status(503), SinkAnswer::Status(200)]);
    let world = start_world(mode).await;
    let api = &world.api;
    let definition = r"
name: chain
initial: a
states:
  a: { on: { go: { do: [first, rest, second] }, stop: { to: z } } }
  z: { final: true }
actions:
  first: { http: { url: SINK/first }, retry: { attempts: 2, backoff: 600ms, jitter: none } }
  rest: { wait: { for: 500ms }, needs: [first] }
  second: { http: { url: SINK/second }, needs: [rest] }
";
    api.apply(&definition_with_sink(definition, &sink)).await;
    api.start_with_events("chain", "c-1", json!({}), &["go"]).await;
    api.action_in("c-1", "second", "succeeded").await;
    let (first, second) = (sink.calls_to("/first"), sink.calls_to("/second"));
    let waited = second[0].at - first[1].at;
    assert!(waited.as_millis() >= 500, "it waited {waited:?}");
}

async fn invalid_wait_time_waits_for_person(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(&WAITING.replace("WHEN", "{ until: context.at }")).await;
    for (id, at, said) in [
        ("w-1", json!("tomorrow"), r#"until: "tomorrow" is not a time"#),
        ("w-2", json!(17), "until: a time is needed, not"),
    ] {
        api.start_with_events("patient", id, json!({ "at": at }), &["go"]).await;
        let incident = api.open_incident(id).await;
        assert_eq!(incident["class"], "input", "{incident}");
        assert!(text_field(&incident, "reason").contains(said), "{incident}");
        let input = json!({ "wait": { "until": "2020-02-29T12:00:00.000Z" } });
        api.resolve(&incident, "retry", json!({ "input": input })).await;
        api.execution_in(id, "completed").await;
    }
}

async fn wait_action_ends_with_execution(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(&WAITING.replace("WHEN", "{ for: 1h }")).await;
    api.start_with_events("patient", "p-1", json!({}), &["go"]).await;
    api.action_in("p-1", "rest", "ready").await;
    api.client.post("/v1/executions/p-1/cancel", &json!({})).await.expect_status(202);
    api.execution_in("p-1", "cancelled").await;
    api.action_in("p-1", "rest", "cancelled").await;
}
