//! `wait`: actions that succeed at a given time, whichever workers are alive then.

use std::time::Instant;

use millstream_testkit::sink::Answer;
use millstream_testkit::{Mode, Sink, eventually};
use serde_json::json;

use crate::api::text;
use crate::definitions::at;
use crate::world::{SOON, start};

both_modes!(
    a_wait_is_over_when_its_time_has_come,
    a_wait_is_over_although_nobody_was_there_meanwhile,
    a_wait_for_a_while_begins_when_what_it_needs_is_done,
    a_time_that_is_none_waits_for_a_person,
    a_wait_ends_with_its_execution,
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

async fn a_wait_is_over_when_its_time_has_come(mode: Mode) {
    let world = start(mode).await;
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
        api.begin(name, name, json!({ "at": "2020-02-29T12:00:00Z" }), &["go"]).await;
        api.execution_in(name, "completed").await;
        let took = begun.elapsed().as_millis();
        assert_eq!(took >= 700, name != "a-text", "{name} took {took} ms");
        let rest = api.action(name, "rest").await.expect("the action");
        assert_eq!((&rest["status"], &rest["attempts"]), (&json!("succeeded"), &json!(1)), "{rest}");
        assert!(rest["result"]["until"].is_string(), "{rest}");
    }
}

async fn a_wait_is_over_although_nobody_was_there_meanwhile(mode: Mode) {
    let mut world = start(mode).await;
    world.api.apply(&WAITING.replace("WHEN", "{ for: 1500ms }")).await;
    let begun = Instant::now();
    world.api.begin("patient", "p-1", json!({}), &["go"]).await;
    eventually(SOON, || async {
        let rest = world.api.action("p-1", "rest").await;
        match &rest {
            Some(seen) if seen["status"] == "ready" && seen["next_attempt_at"].is_string() => Ok(()),
            _ => Err(rest),
        }
    })
    .await;
    match mode {
        Mode::Embedded => {
            world.fleet.kill_ingress();
            world.fleet.start_ingress(&[]).await;
        }
        Mode::Fleet { workers } => {
            (0..workers).for_each(|index| world.fleet.kill_worker(index));
            world.fleet.start_worker(&[]);
        }
    }
    world.api.execution_in("p-1", "completed").await;
    assert!(begun.elapsed().as_millis() >= 1500);
    let rest = world.api.action("p-1", "rest").await.expect("the action");
    assert_eq!(rest["attempts"], 1, "waiting is no attempt: {rest}");
}

async fn a_wait_for_a_while_begins_when_what_it_needs_is_done(mode: Mode) {
    let sink = Sink::start().await;
    sink.script("/first", [Answer::Status(503), Answer::Status(200)]);
    let world = start(mode).await;
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
    api.apply(&at(definition, &sink)).await;
    api.begin("chain", "c-1", json!({}), &["go"]).await;
    api.action_in("c-1", "second", "succeeded").await;
    let (first, second) = (sink.calls_to("/first"), sink.calls_to("/second"));
    let waited = second[0].at - first[1].at;
    assert!(waited.as_millis() >= 500, "it waited {waited:?}");
}

async fn a_time_that_is_none_waits_for_a_person(mode: Mode) {
    let world = start(mode).await;
    let api = &world.api;
    api.apply(&WAITING.replace("WHEN", "{ until: context.at }")).await;
    for (id, at, said) in [
        ("w-1", json!("tomorrow"), r#"until: "tomorrow" is not a time"#),
        ("w-2", json!(17), "until: a time is needed, not"),
    ] {
        api.begin("patient", id, json!({ "at": at }), &["go"]).await;
        let incident = api.incident(id).await;
        assert_eq!(incident["class"], "input", "{incident}");
        assert!(text(&incident, "reason").contains(said), "{incident}");
        let input = json!({ "wait": { "until": "2020-02-29T12:00:00.000Z" } });
        api.resolve(&incident, "retry", json!({ "input": input })).await;
        api.execution_in(id, "completed").await;
    }
}

async fn a_wait_ends_with_its_execution(mode: Mode) {
    let world = start(mode).await;
    let api = &world.api;
    api.apply(&WAITING.replace("WHEN", "{ for: 1h }")).await;
    api.begin("patient", "p-1", json!({}), &["go"]).await;
    api.action_in("p-1", "rest", "ready").await;
    api.client.post("/v1/executions/p-1/cancel", &json!({})).await.expect(202);
    api.execution_in("p-1", "cancelled").await;
    api.action_in("p-1", "rest", "cancelled").await;
}
