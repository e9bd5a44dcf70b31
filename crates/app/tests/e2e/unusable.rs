//! Invalid definitions are refused at submission with the place of the error; errors found later wait for a
//! person.

use millstream_testkit::sink::SinkAnswer;
use millstream_testkit::{FleetMode, TestSink};
use serde_json::json;

use crate::api::text_field;
use crate::definitions::definition_with_sink;
use crate::world::start_world;

both_modes!(
    invalid_action_is_refused_with_place,
    failing_template_waits_for_person,
    failing_result_template_waits_for_person,
    render_failure_can_be_handled,
);

const FRAME: &str = r"
name: x
initial: a
states:
  a: { on: { go: { to: b, do: [one, two] } } }
  b: { on: { done: { to: z }, failed: { to: z } } }
  z: { final: true }
actions:
";

/// Invalid actions, and the expected place and message.
const WRONG: &[(&str, &str, &str)] = &[
    ("  one: { noop: 1, retires: 3 }\n  two: { noop: 2 }\n", "actions.one.retires", "retry"),
    ("  one: { noop: 1 }\n  two: { nop: 2 }\n", "actions.two.nop", "noop"),
    ("  one: { http: { url: 'http://h/', bodi: 1 } }\n  two: { noop: 2 }\n", "actions.one.http.bodi", "body"),
    ("  one: { noop: 1, log: x }\n  two: { noop: 2 }\n", "actions.one", "one thing"),
    ("  one: { noop: 1 }\n  two: { needs: [one] }\n", "actions.two", "no action kind"),
    ("  one: { noop: 1, undo: two }\n  two: { noop: 2 }\n", "actions.two", "cannot be in a `do` list"),
    ("  one: { noop: 1, undo: one }\n  two: { noop: 2 }\n", "actions.one.undo", "undo itself"),
    ("  one: { noop: 1, undo: gone }\n  two: { noop: 2 }\n", "actions.one.undo", "gone"),
    (
        "  one: { noop: 1, undo: back }\n  two: { noop: 2, undo: back }\n  back: { noop: 3 }\n",
        "actions.two.undo",
        "cannot be shared",
    ),
    (
        "  one: { noop: 1, undo: back }\n  two: { noop: 2 }\n  back: { noop: 3, on_success: done }\n",
        "actions.back.on_success",
        "an undo action",
    ),
    (
        "  one: { noop: 1, on_failure: failed, compensate: failed }\n  two: { noop: 2 }\n",
        "actions.one",
        "both on_failure and compensate",
    ),
    ("  one: { log: '${secret(\"k\")}' }\n  two: { noop: 2 }\n", "actions.one.log", "secret"),
    (
        "  one: { emit: { to: x, event: e, payload: { a: 'secret(\"k\")' } } }\n  two: { noop: 2 }\n",
        "actions.one.emit.payload.a",
        "secret",
    ),
    (
        "  one: { task: { type: t, input: { a: 'secret(\"k\")' } } }\n  two: { noop: 2 }\n",
        "actions.one.task.input.a",
        "secret",
    ),
    (
        "  one: { http: { url: 'http://h/', body: { a: '\"x\" + secret(\"k\")' } } }\n  two: { noop: 2 }\n",
        "actions.one.http.body.a",
        "secret",
    ),
    (
        "  one: { http: { url: 'http://h/', result: 'secret(\"k\")' } }\n  two: { noop: 2 }\n",
        "actions.one.http.result",
        "secret",
    ),
    ("  one: { wait: { for: 1s, until: now } }\n  two: { noop: 2 }\n", "actions.one.wait", "either"),
    ("  one: { emit: { event: e } }\n  two: { noop: 2 }\n", "actions.one.emit", "correlation is required"),
    (
        "  one: { start: { definition: d, parent_close: abandn } }\n  two: { noop: 2 }\n",
        "actions.one.start.parent_close",
        "abandon",
    ),
    (
        "  one: { webhook: { url: 'http://h/', type: t } }\n  two: { noop: 2 }\n",
        "actions.one.webhook.secret",
        "missing",
    ),
    (
        "  one: { noop: 1, timeouts: { heartbeat: 1s } }\n  two: { noop: 2 }\n",
        "actions.one.timeouts.heartbeat",
        "call and task only",
    ),
    (
        "  one: { emit: { to: x, event: millstream.cancel } }\n  two: { noop: 2 }\n",
        "actions.one.emit.event",
        "reserved",
    ),
    ("  one: { noop: 1, retry: { jitter: noen } }\n  two: { noop: 2 }\n", "actions.one.retry.jitter", "none"),
];

async fn invalid_action_is_refused_with_place(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    for (actions, path, said) in WRONG {
        let source = format!("{FRAME}{actions}");
        let problem =
            api.client.post_raw("/v1/definitions", "application/yaml", source).await.expect_problem(422);
        let told = problem["problems"].as_array().unwrap();
        let found = told.iter().find(|each| each["path"] == *path);
        let found = found.unwrap_or_else(|| panic!("nothing about {path}: {problem}"));
        assert!(text_field(found, "message").contains(said), "{path}: {found}");
    }
    assert!(api.all_pages("/v1/definitions").await.is_empty(), "nothing was stored");
}

const RENDER: &str = r"
name: render
initial: a
context: { user: {} }
states:
  a: { on: { go: { to: b, do: [first, call] } } }
  b:
    on:
      note: { set: { noted: true } }
      called: { to: z }
      uncalled: { to: y, set: { why: event.payload.error } }
  y: { final: failed }
  z: { final: true }
actions:
  first: { noop: { a: 1 } }
  call: { http: { url: SINK/call, body: { user: { name: BROKEN } } }, on_success: called, REST }
";

async fn failing_template_waits_for_person(mode: FleetMode) {
    broken_input(mode, "context.user.name", "needs: []").await;
}

async fn failing_result_template_waits_for_person(mode: FleetMode) {
    broken_input(mode, "results.first.b", "needs: [first]").await;
}

async fn broken_input(mode: FleetMode, expression: &str, rest: &str) {
    let sink = TestSink::start().await;
    sink.set_answers("/call", [SinkAnswer::Status(200)]);
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(&definition_with_sink(&RENDER.replace("BROKEN", expression).replace("REST", rest), &sink))
        .await;
    api.start_with_events("render", "r-1", json!({}), &["go"]).await;
    for _ in 0..2 {
        let incident = api.open_incident("r-1").await;
        assert_eq!(
            (&incident["class"], &incident["action"]),
            (&json!("input"), &json!("call")),
            "{incident}"
        );
        let reason = text_field(&incident, "reason");
        assert!(
            reason.contains("body.user.name") || reason.contains("body: user.name"),
            "the place: {reason}"
        );
        assert!(reason.contains(expression), "what is missing: {reason}");
        assert!(sink.recorded_calls().is_empty());
        // Without another input it fails as before, for the same reason.
        api.resolve(&incident, "retry", json!({})).await;
    }
    let incident = api.open_incident("r-1").await;
    let note = api.send("r-1", "note", json!({})).await;
    assert_eq!(api.event(&note).await["status"], "pending");
    let input = json!({ "http": { "method": "POST", "url": sink.url("/call"), "body": { "user": { "name": "ada" } } } });
    api.resolve(&incident, "retry", json!({ "input": input })).await;
    let ended = api.execution_in("r-1", "completed").await;
    assert_eq!(ended["context"]["noted"], true, "events received meanwhile are not lost: {ended}");
    assert_eq!(sink.recorded_calls()[0].json(), json!({ "user": { "name": "ada" } }));
}

async fn render_failure_can_be_handled(mode: FleetMode) {
    let sink = TestSink::start().await;
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(&definition_with_sink(
        &RENDER.replace("BROKEN", "context.user.name").replace("REST", "on_failure: uncalled"),
        &sink,
    ))
    .await;
    api.start_with_events("render", "r-1", json!({}), &["go"]).await;
    let failed = api.execution_in("r-1", "failed").await;
    assert_eq!(failed["context"]["why"]["class"], "input", "{failed}");
    assert!(text_field(&failed["context"]["why"], "message").contains("context.user.name"), "{failed}");
}
