//! Incidents: decisions about single ones and about groups of a thousand.

use std::collections::BTreeMap;

use millstream_testkit::sink::Answer;
use millstream_testkit::{Mode, Sink, eventually};
use serde_json::{Value, json};

use crate::api::{Api, text};
use crate::definitions::at;
use crate::world::{SOON, World, start};

both_modes!(
    a_thousand_executions_behind_one_broken_target_go_on_with_one_decision,
    a_retry_goes_on_under_the_same_key,
    an_edited_input_has_a_key_of_its_own,
    a_skipped_action_counts_as_done,
    an_execution_is_ended_by_a_decision,
    what_is_under_way_when_a_person_ends_the_execution_is_not_tried_again,
    an_execution_that_cannot_be_read_waits_for_a_person,
    what_came_meanwhile_is_decided_afterwards_in_its_order,
    of_two_decisions_at_once_one_is_told_of_the_other,
    an_event_retried_by_its_id_resolves_its_incidents,
    two_failures_of_one_transition_are_two_decisions,
    a_group_is_ended_by_one_decision_and_a_cancelled_execution_leaves_none,
    the_last_action_of_an_execution_that_has_ended_can_be_tried_again,
    targets_and_people_may_write_any_character,
    an_action_that_was_out_of_time_has_its_time_again,
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
async fn paused(mode: Mode, ids: &[&str]) -> (World, Sink) {
    let sink = Sink::start().await;
    sink.script("/call", [Answer::Status(400)]);
    let world = start(mode).await;
    world.api.apply(&at(CALL, &sink)).await;
    for id in ids {
        world.api.begin("call", id, json!({ "id": id }), &["go"]).await;
    }
    for id in ids {
        world.api.execution_in(id, "paused").await;
    }
    (world, sink)
}

/// How often the target was called, by key.
fn by_key(sink: &Sink, path: &str) -> BTreeMap<String, usize> {
    let mut calls = BTreeMap::new();
    for call in sink.calls_to(path) {
        *calls.entry(call.header("idempotency-key").expect("a key").to_owned()).or_insert(0) += 1;
    }
    calls
}

async fn groups(api: &Api) -> Vec<Value> {
    api.all("/v1/incidents/groups").await
}

async fn a_thousand_executions_behind_one_broken_target_go_on_with_one_decision(mode: Mode) {
    const MANY: usize = 1_000;
    let sink = Sink::start().await;
    sink.script("/call", [Answer::Status(400)]);
    let world = start(mode).await;
    let api = &world.api;
    api.apply(&at(CALL, &sink)).await;
    let starts: Vec<_> = (0..MANY)
        .map(|i| json!({ "definition": "call", "execution_id": format!("e-{i}"), "events": [{ "name": "go" }], "input": { "id": i } }))
        .collect();
    for some in starts.chunks(250) {
        assert!(api.client.post("/v1/executions", &json!(some)).await.status < 300);
    }
    let group = eventually(SOON, || async {
        let groups = groups(api).await;
        match groups.as_slice() {
            [group] if group["count"] == MANY => Ok(group.clone()),
            _ => Err(groups),
        }
    })
    .await;
    let shown = (&group["definition"], &group["action"], &group["class"]);
    assert_eq!(shown, (&json!("call"), &json!("call"), &json!("status")), "{group}");
    assert_eq!(api.all("/v1/executions?status=paused&limit=500").await.len(), MANY);
    let before = by_key(&sink, "/call");
    assert_eq!((before.len(), before.values().max()), (MANY, Some(&1)), "each was tried once");

    sink.script("/call", [Answer::Json(200, json!({ "ok": true }))]);
    let path = format!("/v1/incidents/groups/{}/retry", text(&group, "fingerprint"));
    let done = api.client.post(&path, &json!({ "reason": "the target is repaired" })).await.expect(202);
    assert_eq!((&done["resolved"], &done["remaining"]), (&json!(MANY), &json!(0)), "{done}");
    eventually(SOON, || async {
        let open = api.all("/v1/executions?state=b&limit=500").await.len();
        if open == 0 && sink.calls_to("/report").len() >= MANY { Ok(()) } else { Err(open) }
    })
    .await;
    let after = by_key(&sink, "/call");
    assert_eq!((after.len(), after.values().max()), (MANY, Some(&2)), "one refusal and one effect each");
    let reports = by_key(&sink, "/report");
    assert_eq!((reports.len(), reports.values().max()), (MANY, Some(&1)));
    assert!(groups(api).await.is_empty());
    api.client.post("/v1/incidents/groups/0123456789abcdef/retry", &json!({})).await.problem(404);
}

async fn a_retry_goes_on_under_the_same_key(mode: Mode) {
    let (world, sink) = paused(mode, &["e-1"]).await;
    let api = &world.api;
    let incident = api.incident("e-1").await;
    assert_eq!((&incident["key"], &incident["attempts"]), (&json!("default/e-1/2/call"), &json!(1)));
    assert_eq!(incident["error"]["status"], 400, "{incident}");
    sink.script("/call", [Answer::Status(503), Answer::Json(200, json!(1))]);
    let resolved = api.resolve(&incident, "retry", json!({ "reason": "again" })).await;
    assert_eq!(resolved["key"], "default/e-1/2/call", "{resolved}");
    assert_eq!(api.execution_at("e-1", "z").await["status"], "active");
    api.action_in("e-1", "report", "succeeded").await;
    assert_eq!(by_key(&sink, "/call"), BTreeMap::from([("default/e-1/2/call".to_owned(), 3)]));
    let shown =
        api.client.get(&format!("/v1/incidents/{}", text(&incident, "incident_id"))).await.expect(200);
    assert_eq!((&shown["status"], &shown["resolved"]["resolution"]), (&json!("resolved"), &json!("retry")));
    assert_eq!(shown["resolved"]["reason"], "again", "{shown}");
}

async fn an_edited_input_has_a_key_of_its_own(mode: Mode) {
    let (world, sink) = paused(mode, &["e-1"]).await;
    let api = &world.api;
    let incident = api.incident("e-1").await;
    let mut input = incident["input"].clone();
    for (at, wrong) in [
        ("input", json!({ "log": "x" })),
        ("input.http.bdoy", {
            let mut wrong = input.clone();
            wrong["http"]["bdoy"] = json!(1);
            wrong
        }),
    ] {
        let problem = api.post_resolution(&incident, "retry", &json!({ "input": wrong })).await.problem(422);
        assert_eq!(problem["problems"][0]["path"], at, "{problem}");
    }
    input["http"]["body"]["id"] = json!("edited");
    sink.script("/call", [Answer::Json(200, json!(1))]);
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
    let call = api.action("e-1", "call").await.expect("the action");
    assert_eq!((&call["revision"], &call["key"]), (&json!(1), &resolved["key"]), "{call}");
}

async fn a_skipped_action_counts_as_done(mode: Mode) {
    let (world, sink) = paused(mode, &["e-1"]).await;
    let api = &world.api;
    let incident = api.incident("e-1").await;
    let problem = api.post_resolution(&incident, "skip", &json!({})).await.problem(422);
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
    assert_eq!(api.settled(&text(&go, "event_id")).await["status"], "completed");
}

async fn an_execution_is_ended_by_a_decision(mode: Mode) {
    let (world, _sink) = paused(mode, &["e-1", "e-2"]).await;
    let api = &world.api;
    for (id, how, status, name) in
        [("e-1", "fail", "failed", "millstream.fail"), ("e-2", "cancel", "cancelled", "millstream.cancel")]
    {
        let note = api.send(id, "note", json!({ "i": 1 })).await;
        let incident = api.incident(id).await;
        api.resolve(&incident, how, json!({ "reason": "hopeless" })).await;
        api.execution_in(id, status).await;
        let last = api.list(id, "history").await.pop().unwrap();
        assert_eq!((&last["name"], &last["payload"]["reason"]), (&json!(name), &json!("hopeless")), "{last}");
        let note = api.settled(&note).await;
        assert_eq!(note["status"], "rejected", "nothing happens after the end: {note}");
    }
    assert!(api.all("/v1/incidents?status=open").await.is_empty());
    assert!(groups(api).await.is_empty());
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

async fn what_is_under_way_when_a_person_ends_the_execution_is_not_tried_again(mode: Mode) {
    for how in ["fail", "cancel"] {
        let sink = Sink::start().await;
        sink.script("/call", [Answer::Status(400)]);
        sink.script("/slow", [Answer::Hold(503)]);
        let world = start(mode).await;
        let api = &world.api;
        api.apply(&at(TWO, &sink)).await;
        api.begin("two", "e-1", json!({}), &["go"]).await;
        let incident = api.incident("e-1").await;
        eventually(SOON, || async {
            if sink.calls_to("/slow").is_empty() { Err("it has not begun") } else { Ok(()) }
        })
        .await;
        api.resolve(&incident, how, json!({})).await;
        api.execution_until("e-1", |seen| seen["status"] != "paused").await;
        sink.release();
        let slow = api.action_in("e-1", "slow", "cancelled").await;
        assert_eq!((&slow["attempts"], &slow["error"]["status"]), (&json!(1), &json!(503)), "{slow}");
        assert_eq!(sink.calls_to("/slow").len(), 1, "after {how} it is not wanted");
    }
}

/// Its stored state is damaged directly in the store, and repaired later.
async fn an_execution_that_cannot_be_read_waits_for_a_person(mode: Mode) {
    let sink = Sink::start().await;
    let world = start(mode).await;
    let api = &world.api;
    api.apply(&at(CALL, &sink)).await;
    api.begin("call", "e-1", json!({ "id": "e-1" }), &[]).await;
    let damage = "UPDATE executions SET snapshot = 'broken ' || snapshot WHERE execution_id = 'e-1'";
    assert_eq!(world.fleet.sql(damage).await, 1);
    let go = api.send("e-1", "go", json!({})).await;
    let incident = api.incident("e-1").await;
    assert_eq!((&incident["class"], &incident["event_id"]), (&json!("corrupt"), &json!(go)), "{incident}");
    assert_eq!(groups(api).await[0]["class"], "corrupt");
    let refused = api.post_resolution(&incident, "skip", &json!({})).await.problem(409);
    assert!(text(&refused, "detail").contains("cannot be read"), "{refused}");
    // Too early: the damage is found again.
    api.resolve(&incident, "retry", json!({})).await;
    let again = eventually(SOON, || async {
        let open = api.all("/v1/incidents?status=open").await;
        match open.as_slice() {
            [one] if one["incident_id"] != incident["incident_id"] => Ok(one.clone()),
            other => Err(other.to_vec()),
        }
    })
    .await;
    let mend = "UPDATE executions SET snapshot = substr(snapshot, 8) WHERE execution_id = 'e-1'";
    assert_eq!(world.fleet.sql(mend).await, 1);
    api.resolve(&again, "retry", json!({ "reason": "mended" })).await;
    assert_eq!(api.settled(&go).await["status"], "completed");
    assert!(api.all("/v1/incidents?status=open").await.is_empty());
}

async fn what_came_meanwhile_is_decided_afterwards_in_its_order(mode: Mode) {
    let (world, sink) = paused(mode, &["e-1"]).await;
    let api = &world.api;
    let mut notes = Vec::new();
    for i in 0..5 {
        notes.push(api.send("e-1", "note", json!({ "i": i })).await);
    }
    for note in &notes {
        assert_eq!(api.event(note).await["status"], "pending", "nothing is decided while it is paused");
    }
    sink.script("/call", [Answer::Json(200, json!(1))]);
    let incident = api.incident("e-1").await;
    api.resolve(&incident, "retry", json!({})).await;
    let seen = api.execution_until("e-1", |seen| seen["seq"] == 8).await;
    assert_eq!(seen["context"]["seen"].as_array().unwrap().len(), 6, "{seen}");
    let order: Vec<_> =
        seen["context"]["seen"].as_array().unwrap().iter().filter(|i| **i != json!(99)).cloned().collect();
    assert_eq!(order, [0, 1, 2, 3, 4].map(|i| json!(i)));
}

async fn of_two_decisions_at_once_one_is_told_of_the_other(mode: Mode) {
    let (world, sink) = paused(mode, &["e-1", "e-2", "e-3", "e-4"]).await;
    let api = &world.api;
    sink.script("/call", [Answer::Json(200, json!(1))]);
    for id in ["e-1", "e-2", "e-3", "e-4"] {
        let incident = api.incident(id).await;
        let (skip, why) = (json!({ "result": 2 }), json!({ "reason": "no" }));
        let (one, other) = tokio::join!(
            api.post_resolution(&incident, "skip", &skip),
            api.post_resolution(&incident, "cancel", &why),
        );
        let (done, late) = if one.status == 202 { (one, other) } else { (other, one) };
        let done = done.expect(202);
        let late = late.problem(409);
        assert!(text(&late, "detail").contains(&text(&done, "resolution")), "{late}");
        let skipped = done["resolution"] == "skip";
        let ended =
            api.execution_until(id, |seen| seen["status"] == "cancelled" || seen["state"] == "z").await;
        assert_eq!(ended["state"] == "z", skipped, "{ended}");
    }
    assert_eq!(sink.calls_to("/call").len(), 4, "there was no further call");
}

async fn an_event_retried_by_its_id_resolves_its_incidents(mode: Mode) {
    let (world, sink) = paused(mode, &["e-1"]).await;
    let api = &world.api;
    let incident = api.incident("e-1").await;
    sink.script("/call", [Answer::Json(200, json!(1))]);
    let path = format!("/v1/events/{}/retry", text(&incident, "event_id"));
    api.client.post(&path, &json!({ "reason": "by its id" })).await.expect(202);
    api.execution_at("e-1", "z").await;
    let late = api.post_resolution(&incident, "retry", &json!({})).await.problem(409);
    assert!(text(&late, "detail").contains("by its id"), "{late}");
}

async fn two_failures_of_one_transition_are_two_decisions(mode: Mode) {
    let sink = Sink::start().await;
    sink.script("/left", [Answer::Status(400)]);
    sink.script("/right", [Answer::Status(410)]);
    let world = start(mode).await;
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
    api.apply(&at(definition, &sink)).await;
    api.begin("pair", "p-1", json!({}), &["go"]).await;
    let open = eventually(SOON, || async {
        let open = api.all("/v1/incidents?status=open").await;
        if open.len() == 2 { Ok(open) } else { Err(open) }
    })
    .await;
    assert_eq!(groups(api).await.len(), 2, "two kinds of trouble");
    sink.script("/left", [Answer::Status(200)]);
    let of = |action: &str| open.iter().find(|incident| incident["action"] == action).unwrap().clone();
    api.resolve(&of("left"), "retry", json!({})).await;
    api.action_in("p-1", "left", "succeeded").await;
    assert_eq!(api.execution("p-1").await["status"], "paused", "the other one is open");
    assert_eq!(api.action("p-1", "join").await.unwrap()["status"], "skipped");
    api.resolve(&of("right"), "skip", json!({ "result": null })).await;
    api.execution_in("p-1", "completed").await;
    assert_eq!((sink.calls_to("/left").len(), sink.calls_to("/right").len()), (2, 1));
}

async fn a_group_is_ended_by_one_decision_and_a_cancelled_execution_leaves_none(mode: Mode) {
    let (world, _sink) = paused(mode, &["e-1", "e-2", "e-3", "e-4"]).await;
    let api = &world.api;
    api.client.post("/v1/executions/e-4/cancel", &json!({})).await.expect(202);
    api.execution_in("e-4", "cancelled").await;
    let group = groups(api).await.pop().expect("a group");
    assert_eq!(group["count"], 3, "{group}");
    let path = format!("/v1/incidents/groups/{}", text(&group, "fingerprint"));
    let some = api.client.post(&format!("{path}/fail"), &json!({ "limit": 1 })).await.expect(202);
    assert_eq!((&some["resolved"], &some["remaining"]), (&json!(1), &json!(2)), "{some}");
    let rest = api.client.post(&format!("{path}/cancel"), &json!({ "reason": "all" })).await.expect(202);
    assert_eq!((&rest["resolved"], &rest["remaining"]), (&json!(2), &json!(0)), "{rest}");
    for (status, count) in [("failed", 1), ("cancelled", 3)] {
        eventually(SOON, || async {
            let seen = api.all(&format!("/v1/executions?status={status}")).await;
            if seen.len() == count { Ok(()) } else { Err(seen) }
        })
        .await;
    }
}

async fn the_last_action_of_an_execution_that_has_ended_can_be_tried_again(mode: Mode) {
    let sink = Sink::start().await;
    sink.script("/bye", [Answer::Status(400)]);
    let world = start(mode).await;
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
    api.apply(&at(definition, &sink)).await;
    api.begin("farewell", "f-1", json!({}), &["end"]).await;
    api.action_in("f-1", "bye", "failed").await;
    assert_eq!(api.execution("f-1").await["status"], "completed");
    assert!(api.all("/v1/incidents").await.is_empty(), "no decision is needed");
    let event = text(&api.action("f-1", "bye").await.expect("the action"), "event_id");
    assert_eq!(api.settled(&event).await["status"], "failed");
    sink.script("/bye", [Answer::Status(200)]);
    api.client.post(&format!("/v1/events/{event}/retry"), &json!({})).await.expect(202);
    api.action_in("f-1", "bye", "succeeded").await;
    assert_eq!(api.settled(&event).await["status"], "completed");
    assert_eq!(api.execution("f-1").await["status"], "completed");
}

/// Postgres cannot store a NUL character in a text.
async fn targets_and_people_may_write_any_character(mode: Mode) {
    let (world, sink) = paused(mode, &[]).await;
    let api = &world.api;
    let odd = "zero \u{0}, bell \u{7}, \u{1f600} and \u{fffd}";
    sink.script("/call", [Answer::Text(400, odd.to_owned())]);
    api.begin("call", "e-1", json!({ "id": odd }), &["go"]).await;
    let incident = api.incident("e-1").await;
    assert!(text(&incident["error"], "message").contains(odd), "{incident}");
    assert!(text(&incident, "reason").contains("answered 400"), "{incident}");
    sink.script("/call", [Answer::Json(200, json!({ "odd": odd }))]);
    api.resolve(&incident, "retry", json!({ "reason": odd })).await;
    let seen = api.execution_at("e-1", "z").await;
    assert_eq!(seen["context"]["got"]["odd"], odd, "{seen}");
    assert_eq!(sink.calls_to("/call")[0].json(), json!({ "id": odd }));
    let late = api.post_resolution(&incident, "skip", &json!({ "result": 1 })).await.problem(409);
    assert!(text(&late, "detail").contains("retry"), "{late}");
}

async fn an_action_that_was_out_of_time_has_its_time_again(mode: Mode) {
    let sink = Sink::start().await;
    sink.script("/call", [Answer::Hold(200)]);
    let world = start(mode).await;
    let api = &world.api;
    let hasty =
        at(CALL, &sink).replace("on_success:", "timeouts: { schedule_to_close: 700ms }\n    on_success:");
    api.apply(&hasty).await;
    api.begin("call", "e-1", json!({ "id": 1 }), &["go"]).await;
    let incident = api.incident("e-1").await;
    sink.script("/call", [Answer::Json(200, json!(1))]);
    api.resolve(&incident, "retry", json!({})).await;
    api.execution_at("e-1", "z").await;
}
