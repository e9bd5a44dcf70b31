//! Incidents: decisions about single ones and about groups of a thousand.

use std::collections::BTreeMap;

use millstream_testkit::sink::SinkAnswer;
use millstream_testkit::{FleetMode, TestSink, eventually};
use serde_json::{Value, json};

use crate::api::{E2eApi, text_field};
use crate::definitions::definition_with_sink;
use crate::world::{E2eWorld, SOON, start_world};

both_modes!(
    group_retry_resumes_a_thousand_executions,
    incident_retry_keeps_key,
    edited_input_gets_new_key,
    skipped_action_counts_as_done,
    incident_decision_ends_execution,
    running_action_is_not_retried_after_end,
    unreadable_execution_waits_for_person,
    events_during_pause_are_decided_in_order,
    concurrent_incident_decisions_conflict,
    event_retry_resolves_its_incidents,
    failures_of_one_transition_are_separate,
    group_decision_and_cancel_close_incidents,
    final_action_of_ended_execution_retries,
    any_character_is_stored,
    retried_action_has_its_timeout_again,
);

const CALL: &str = r"
name: call
initial: a
context: { seen: [] }
states:
  a: { on: { go: { to: b, do: [call, report] } } }
  b:
    on:
      note: { set: { seen: 'context.seen + [event.payload.i]' } }
      called: { to: z, set: { got: event.payload.result, seen: 'context.seen + [99]' } }
  z: { on: { note: { set: { seen: 'context.seen + [event.payload.i]' } }, end: { to: over } } }
  over: { final: true }
actions:
  call:
    http: { url: SINK/call, body: { id: context.id }, result: response.body }
    retry: { attempts: 2, backoff: 10ms, max: 20ms }
    on_success: called
  report: { http: { url: SINK/report, body: { got: results.call } }, needs: [call] }
";

/// Paused executions behind a target that refuses.
async fn start_paused(mode: FleetMode, ids: &[&str]) -> (E2eWorld, TestSink) {
    let sink = TestSink::start().await;
    sink.set_answers("/call", [SinkAnswer::Status(400)]);
    let world = start_world(mode).await;
    world.api.apply(&definition_with_sink(CALL, &sink)).await;
    for id in ids {
        world.api.start_with_events("call", id, json!({ "id": id }), &["go"]).await;
    }
    for id in ids {
        world.api.execution_in(id, "paused").await;
    }
    (world, sink)
}

/// How often the target was called, by key.
fn by_key(sink: &TestSink, path: &str) -> BTreeMap<String, usize> {
    let mut calls = BTreeMap::new();
    for call in sink.calls_to(path) {
        *calls.entry(call.header("idempotency-key").expect("a key").to_owned()).or_insert(0) += 1;
    }
    calls
}

async fn incident_groups(api: &E2eApi) -> Vec<Value> {
    api.all_pages("/v1/incidents/groups").await
}

async fn group_retry_resumes_a_thousand_executions(mode: FleetMode) {
    const MANY: usize = 1_000;
    let sink = TestSink::start().await;
    sink.set_answers("/call", [SinkAnswer::Status(400)]);
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(&definition_with_sink(CALL, &sink)).await;
    let starts: Vec<_> = (0..MANY)
        .map(|i| json!({ "definition": "call", "execution_id": format!("e-{i}"), "events": [{ "name": "go" }], "input": { "id": i } }))
        .collect();
    for some in starts.chunks(250) {
        assert!(api.client.post("/v1/executions", &json!(some)).await.status < 300);
    }
    let group = eventually(SOON, || async {
        let groups = incident_groups(api).await;
        match groups.as_slice() {
            [group] if group["count"] == MANY => Ok(group.clone()),
            _ => Err(groups),
        }
    })
    .await;
    let shown = (&group["definition"], &group["action"], &group["class"]);
    assert_eq!(shown, (&json!("call"), &json!("call"), &json!("status")), "{group}");
    assert_eq!(api.all_pages("/v1/executions?status=paused&limit=500").await.len(), MANY);
    let before = by_key(&sink, "/call");
    assert_eq!((before.len(), before.values().max()), (MANY, Some(&1)), "each was tried once");

    sink.set_answers("/call", [SinkAnswer::Json(200, json!({ "ok": true }))]);
    let path = format!("/v1/incidents/groups/{}/retry", text_field(&group, "fingerprint"));
    let done =
        api.client.post(&path, &json!({ "reason": "the target is repaired" })).await.expect_status(202);
    assert_eq!((&done["resolved"], &done["remaining"]), (&json!(MANY), &json!(0)), "{done}");
    eventually(SOON, || async {
        let open = api.all_pages("/v1/executions?state=b&limit=500").await.len();
        if open == 0 && sink.calls_to("/report").len() >= MANY { Ok(()) } else { Err(open) }
    })
    .await;
    let after = by_key(&sink, "/call");
    assert_eq!((after.len(), after.values().max()), (MANY, Some(&2)), "one refusal and one effect each");
    let reports = by_key(&sink, "/report");
    assert_eq!((reports.len(), reports.values().max()), (MANY, Some(&1)));
    assert!(incident_groups(api).await.is_empty());
    api.client.post("/v1/incidents/groups/0123456789abcdef/retry", &json!({})).await.expect_problem(404);
}

async fn incident_retry_keeps_key(mode: FleetMode) {
    let (world, sink) = start_paused(mode, &["e-1"]).await;
    let api = &world.api;
    let incident = api.open_incident("e-1").await;
    assert_eq!((&incident["key"], &incident["attempts"]), (&json!("default/e-1/2/call"), &json!(1)));
    assert_eq!(incident["error"]["status"], 400, "{incident}");
    sink.set_answers("/call", [SinkAnswer::Status(503), SinkAnswer::Json(200, json!(1))]);
    let resolved = api.resolve(&incident, "retry", json!({ "reason": "again" })).await;
    assert_eq!(resolved["key"], "default/e-1/2/call", "{resolved}");
    assert_eq!(api.execution_at("e-1", "z").await["status"], "active");
    api.action_in("e-1", "report", "succeeded").await;
    assert_eq!(by_key(&sink, "/call"), BTreeMap::from([("default/e-1/2/call".to_owned(), 3)]));
    let shown = api
        .client
        .get(&format!("/v1/incidents/{}", text_field(&incident, "incident_id")))
        .await
        .expect_status(200);
    assert_eq!((&shown["status"], &shown["resolved"]["resolution"]), (&json!("resolved"), &json!("retry")));
    assert_eq!(shown["resolved"]["reason"], "again", "{shown}");
}

async fn edited_input_gets_new_key(mode: FleetMode) {
    let (world, sink) = start_paused(mode, &["e-1"]).await;
    let api = &world.api;
    let incident = api.open_incident("e-1").await;
    let mut input = incident["input"].clone();
    for (at, wrong) in [
        ("input", json!({ "log": "x" })),
        ("input.http.bdoy", {
            let mut wrong = input.clone();
            wrong["http"]["bdoy"] = json!(1);
            wrong
        }),
    ] {
        let problem =
            api.post_resolution(&incident, "retry", &json!({ "input": wrong })).await.expect_problem(422);
        assert_eq!(problem["problems"][0]["path"], at, "{problem}");
    }
    input["http"]["body"]["id"] = json!("edited");
    sink.set_answers("/call", [SinkAnswer::Json(200, json!(1))]);
    let resolved = api.resolve(&incident, "retry", json!({ "input": input })).await;
    assert_eq!(
        (&resolved["key"], &resolved["resolution"]),
        (&json!("default/e-1/2/call~1"), &json!("retry_with_input"))
    );
    api.execution_at("e-1", "z").await;
    let last = sink.calls_to("/call").pop().unwrap();
    assert_eq!(
        (last.header("idempotency-key"), last.json()),
        (Some("default/e-1/2/call~1"), json!({ "id": "edited" }))
    );
    let call = api.latest_action("e-1", "call").await.expect("the action");
    assert_eq!((&call["revision"], &call["key"]), (&json!(1), &resolved["key"]), "{call}");
}

async fn skipped_action_counts_as_done(mode: FleetMode) {
    let (world, sink) = start_paused(mode, &["e-1"]).await;
    let api = &world.api;
    let incident = api.open_incident("e-1").await;
    let problem = api.post_resolution(&incident, "skip", &json!({})).await.expect_problem(422);
    assert_eq!(problem["problems"][0]["path"], "result", "{problem}");
    api.resolve(&incident, "skip", json!({ "result": { "by": "hand" } })).await;
    let seen = api.execution_at("e-1", "z").await;
    assert_eq!(
        (&seen["context"]["got"], &seen["status"]),
        (&json!({ "by": "hand" }), &json!("active")),
        "{seen}"
    );
    api.action_in("e-1", "report", "succeeded").await;
    assert_eq!(sink.calls_to("/report")[0].json(), json!({ "got": { "by": "hand" } }));
    assert_eq!(sink.calls_to("/call").len(), 1);
    let go = api.list("e-1", "history").await[1].clone();
    assert_eq!(api.settled_event(&text_field(&go, "event_id")).await["status"], "completed");
}

async fn incident_decision_ends_execution(mode: FleetMode) {
    let (world, _sink) = start_paused(mode, &["e-1", "e-2"]).await;
    let api = &world.api;
    for (id, how, status, name) in
        [("e-1", "fail", "failed", "millstream.fail"), ("e-2", "cancel", "cancelled", "millstream.cancel")]
    {
        let note = api.send(id, "note", json!({ "i": 1 })).await;
        let incident = api.open_incident(id).await;
        api.resolve(&incident, how, json!({ "reason": "hopeless" })).await;
        api.execution_in(id, status).await;
        let last = api.list(id, "history").await.pop().unwrap();
        assert_eq!((&last["name"], &last["payload"]["reason"]), (&json!(name), &json!("hopeless")), "{last}");
        let note = api.settled_event(&note).await;
        assert_eq!(note["status"], "rejected", "nothing happens after the end: {note}");
    }
    assert!(api.all_pages("/v1/incidents?status=open").await.is_empty());
    assert!(incident_groups(api).await.is_empty());
}

const TWO: &str = r"
name: two
initial: a
states:
  a: { on: { go: { to: b, do: [call, slow] } } }
  b: { on: { end: { to: z } } }
  z: { final: true }
actions:
  call: { http: { url: SINK/call }, retry: { attempts: 1 } }
  slow: { http: { url: SINK/slow }, retry: { attempts: 9, backoff: 10ms, max: 20ms } }
";

async fn running_action_is_not_retried_after_end(mode: FleetMode) {
    for how in ["fail", "cancel"] {
        let sink = TestSink::start().await;
        sink.set_answers("/call", [SinkAnswer::Status(400)]);
        sink.set_answers("/slow", [SinkAnswer::Hold(503)]);
        let world = start_world(mode).await;
        let api = &world.api;
        api.apply(&definition_with_sink(TWO, &sink)).await;
        api.start_with_events("two", "e-1", json!({}), &["go"]).await;
        let incident = api.open_incident("e-1").await;
        eventually(SOON, || async {
            if sink.calls_to("/slow").is_empty() { Err("it has not begun") } else { Ok(()) }
        })
        .await;
        api.resolve(&incident, how, json!({})).await;
        api.execution_until("e-1", |seen| seen["status"] != "paused").await;
        sink.release_held();
        let slow = api.action_in("e-1", "slow", "cancelled").await;
        assert_eq!((&slow["attempts"], &slow["error"]["status"]), (&json!(1), &json!(503)), "{slow}");
        assert_eq!(sink.calls_to("/slow").len(), 1, "after {how} it is not wanted");
    }
}

/// Its stored state is damaged directly in the store, and repaired later.
async fn unreadable_execution_waits_for_person(mode: FleetMode) {
    let sink = TestSink::start().await;
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(&definition_with_sink(CALL, &sink)).await;
    api.start_with_events("call", "e-1", json!({ "id": "e-1" }), &[]).await;
    let damage = "UPDATE executions SET snapshot = 'broken ' || snapshot WHERE execution_id = 'e-1'";
    assert_eq!(world.fleet.execute_sql(damage).await, 1);
    let go = api.send("e-1", "go", json!({})).await;
    let incident = api.open_incident("e-1").await;
    assert_eq!((&incident["class"], &incident["event_id"]), (&json!("corrupt"), &json!(go)), "{incident}");
    assert_eq!(incident_groups(api).await[0]["class"], "corrupt");
    let refused = api.post_resolution(&incident, "skip", &json!({})).await.expect_problem(409);
    assert!(text_field(&refused, "detail").contains("cannot be read"), "{refused}");
    // Too early: the damage is found again.
    api.resolve(&incident, "retry", json!({})).await;
    let again = eventually(SOON, || async {
        let open = api.all_pages("/v1/incidents?status=open").await;
        match open.as_slice() {
            [one] if one["incident_id"] != incident["incident_id"] => Ok(one.clone()),
            other => Err(other.to_vec()),
        }
    })
    .await;
    let mend = "UPDATE executions SET snapshot = substr(snapshot, 8) WHERE execution_id = 'e-1'";
    assert_eq!(world.fleet.execute_sql(mend).await, 1);
    api.resolve(&again, "retry", json!({ "reason": "mended" })).await;
    assert_eq!(api.settled_event(&go).await["status"], "completed");
    assert!(api.all_pages("/v1/incidents?status=open").await.is_empty());
}

async fn events_during_pause_are_decided_in_order(mode: FleetMode) {
    let (world, sink) = start_paused(mode, &["e-1"]).await;
    let api = &world.api;
    let mut notes = Vec::new();
    for i in 0..5 {
        notes.push(api.send("e-1", "note", json!({ "i": i })).await);
    }
    for note in &notes {
        assert_eq!(api.event(note).await["status"], "pending", "nothing is decided while it is paused");
    }
    sink.set_answers("/call", [SinkAnswer::Json(200, json!(1))]);
    let incident = api.open_incident("e-1").await;
    api.resolve(&incident, "retry", json!({})).await;
    let seen = api.execution_until("e-1", |seen| seen["seq"] == 8).await;
    assert_eq!(seen["context"]["seen"].as_array().unwrap().len(), 6, "{seen}");
    let order: Vec<_> =
        seen["context"]["seen"].as_array().unwrap().iter().filter(|i| **i != json!(99)).cloned().collect();
    assert_eq!(order, [0, 1, 2, 3, 4].map(|i| json!(i)));
}

async fn concurrent_incident_decisions_conflict(mode: FleetMode) {
    let (world, sink) = start_paused(mode, &["e-1", "e-2", "e-3", "e-4"]).await;
    let api = &world.api;
    sink.set_answers("/call", [SinkAnswer::Json(200, json!(1))]);
    for id in ["e-1", "e-2", "e-3", "e-4"] {
        let incident = api.open_incident(id).await;
        let (skip, why) = (json!({ "result": 2 }), json!({ "reason": "no" }));
        let (one, other) = tokio::join!(
            api.post_resolution(&incident, "skip", &skip),
            api.post_resolution(&incident, "cancel", &why),
        );
        let (done, late) = if one.status == 202 { (one, other) } else { (other, one) };
        let done = done.expect_status(202);
        let late = late.expect_problem(409);
        assert!(text_field(&late, "detail").contains(&text_field(&done, "resolution")), "{late}");
        let skipped = done["resolution"] == "skip";
        let ended =
            api.execution_until(id, |seen| seen["status"] == "cancelled" || seen["state"] == "z").await;
        assert_eq!(ended["state"] == "z", skipped, "{ended}");
    }
    assert_eq!(sink.calls_to("/call").len(), 4, "there was no further call");
}

async fn event_retry_resolves_its_incidents(mode: FleetMode) {
    let (world, sink) = start_paused(mode, &["e-1"]).await;
    let api = &world.api;
    let incident = api.open_incident("e-1").await;
    sink.set_answers("/call", [SinkAnswer::Json(200, json!(1))]);
    let path = format!("/v1/events/{}/retry", text_field(&incident, "event_id"));
    api.client.post(&path, &json!({ "reason": "by its id" })).await.expect_status(202);
    api.execution_at("e-1", "z").await;
    let late = api.post_resolution(&incident, "retry", &json!({})).await.expect_problem(409);
    assert!(text_field(&late, "detail").contains("by its id"), "{late}");
}

async fn failures_of_one_transition_are_separate(mode: FleetMode) {
    let sink = TestSink::start().await;
    sink.set_answers("/left", [SinkAnswer::Status(400)]);
    sink.set_answers("/right", [SinkAnswer::Status(410)]);
    let world = start_world(mode).await;
    let api = &world.api;
    let definition = r"
name: pair
initial: a
states:
  a: { on: { go: { to: b, do: [left, right, join] } } }
  b: { on: { joined: { to: z } } }
  z: { final: true }
actions:
  left: { http: { url: SINK/left } }
  right: { http: { url: SINK/right } }
  join: { noop: 1, needs: [left, right], on_success: joined }
";
    api.apply(&definition_with_sink(definition, &sink)).await;
    api.start_with_events("pair", "p-1", json!({}), &["go"]).await;
    let open = eventually(SOON, || async {
        let open = api.all_pages("/v1/incidents?status=open").await;
        if open.len() == 2 { Ok(open) } else { Err(open) }
    })
    .await;
    assert_eq!(incident_groups(api).await.len(), 2, "two kinds of trouble");
    sink.set_answers("/left", [SinkAnswer::Status(200)]);
    let of = |action: &str| open.iter().find(|incident| incident["action"] == action).unwrap().clone();
    api.resolve(&of("left"), "retry", json!({})).await;
    api.action_in("p-1", "left", "succeeded").await;
    assert_eq!(api.execution("p-1").await["status"], "paused", "the other one is open");
    assert_eq!(api.latest_action("p-1", "join").await.unwrap()["status"], "skipped");
    api.resolve(&of("right"), "skip", json!({ "result": null })).await;
    api.execution_in("p-1", "completed").await;
    assert_eq!((sink.calls_to("/left").len(), sink.calls_to("/right").len()), (2, 1));
}

async fn group_decision_and_cancel_close_incidents(mode: FleetMode) {
    let (world, _sink) = start_paused(mode, &["e-1", "e-2", "e-3", "e-4"]).await;
    let api = &world.api;
    api.client.post("/v1/executions/e-4/cancel", &json!({})).await.expect_status(202);
    api.execution_in("e-4", "cancelled").await;
    let group = incident_groups(api).await.pop().expect("a group");
    assert_eq!(group["count"], 3, "{group}");
    let path = format!("/v1/incidents/groups/{}", text_field(&group, "fingerprint"));
    let some = api.client.post(&format!("{path}/fail"), &json!({ "limit": 1 })).await.expect_status(202);
    assert_eq!((&some["resolved"], &some["remaining"]), (&json!(1), &json!(2)), "{some}");
    let rest =
        api.client.post(&format!("{path}/cancel"), &json!({ "reason": "all" })).await.expect_status(202);
    assert_eq!((&rest["resolved"], &rest["remaining"]), (&json!(2), &json!(0)), "{rest}");
    for (status, count) in [("failed", 1), ("cancelled", 3)] {
        eventually(SOON, || async {
            let seen = api.all_pages(&format!("/v1/executions?status={status}")).await;
            if seen.len() == count { Ok(()) } else { Err(seen) }
        })
        .await;
    }
}

async fn final_action_of_ended_execution_retries(mode: FleetMode) {
    let sink = TestSink::start().await;
    sink.set_answers("/bye", [SinkAnswer::Status(400)]);
    let world = start_world(mode).await;
    let api = &world.api;
    let definition = r"
name: farewell
initial: a
states:
  a: { on: { end: { to: z, do: [bye] } } }
  z: { final: true }
actions:
  bye: { http: { url: SINK/bye } }
";
    api.apply(&definition_with_sink(definition, &sink)).await;
    api.start_with_events("farewell", "f-1", json!({}), &["end"]).await;
    api.action_in("f-1", "bye", "failed").await;
    assert_eq!(api.execution("f-1").await["status"], "completed");
    assert!(api.all_pages("/v1/incidents").await.is_empty(), "no decision is needed");
    let event = text_field(&api.latest_action("f-1", "bye").await.expect("the action"), "event_id");
    assert_eq!(api.settled_event(&event).await["status"], "failed");
    sink.set_answers("/bye", [SinkAnswer::Status(200)]);
    api.client.post(&format!("/v1/events/{event}/retry"), &json!({})).await.expect_status(202);
    api.action_in("f-1", "bye", "succeeded").await;
    assert_eq!(api.settled_event(&event).await["status"], "completed");
    assert_eq!(api.execution("f-1").await["status"], "completed");
}

/// Postgres cannot store a NUL character in a text.
async fn any_character_is_stored(mode: FleetMode) {
    let (world, sink) = start_paused(mode, &[]).await;
    let api = &world.api;
    let odd = "zero \u{0}, bell \u{7}, \u{1f600} and \u{fffd}";
    sink.set_answers("/call", [SinkAnswer::Text(400, odd.to_owned())]);
    api.start_with_events("call", "e-1", json!({ "id": odd }), &["go"]).await;
    let incident = api.open_incident("e-1").await;
    assert!(text_field(&incident["error"], "message").contains(odd), "{incident}");
    assert!(text_field(&incident, "reason").contains("answered 400"), "{incident}");
    sink.set_answers("/call", [SinkAnswer::Json(200, json!({ "odd": odd }))]);
    api.resolve(&incident, "retry", json!({ "reason": odd })).await;
    let seen = api.execution_at("e-1", "z").await;
    assert_eq!(seen["context"]["got"]["odd"], odd, "{seen}");
    assert_eq!(sink.calls_to("/call")[0].json(), json!({ "id": odd }));
    let late = api.post_resolution(&incident, "skip", &json!({ "result": 1 })).await.expect_problem(409);
    assert!(text_field(&late, "detail").contains("retry"), "{late}");
}

async fn retried_action_has_its_timeout_again(mode: FleetMode) {
    let sink = TestSink::start().await;
    sink.set_answers("/call", [SinkAnswer::Hold(200)]);
    let world = start_world(mode).await;
    let api = &world.api;
    let hasty = definition_with_sink(CALL, &sink)
        .replace("on_success:", "timeouts: { schedule_to_close: 700ms }\n    on_success:");
    api.apply(&hasty).await;
    api.start_with_events("call", "e-1", json!({ "id": 1 }), &["go"]).await;
    let incident = api.open_incident("e-1").await;
    sink.set_answers("/call", [SinkAnswer::Json(200, json!(1))]);
    api.resolve(&incident, "retry", json!({})).await;
    api.execution_at("e-1", "z").await;
}
