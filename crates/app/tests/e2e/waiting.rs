//! Callers that wait: `Prefer`, definitions with `mode: sync`, and the strict check at submission.

use std::time::{Duration, Instant};

use millstream_testkit::sink::Answer;
use millstream_testkit::{Mode, Sink};
use serde_json::json;

use crate::api::text;
use crate::definitions::{CHARGE, FRAGILE, ORDER, at};
use crate::world::start;

both_modes!(
    a_caller_who_waits_gets_the_outcome,
    a_caller_who_waits_too_short_gets_202,
    until_applied_returns_before_the_actions,
    mode_sync_answers_with_the_outcome_and_back,
    the_strict_check_refuses_what_the_state_cannot_take,
    the_strict_check_does_not_guess_about_what_is_undecided,
);

async fn a_caller_who_waits_gets_the_outcome(mode: Mode) {
    let sink = Sink::start().await;
    let world = start(mode).await;
    let api = &world.api;
    api.apply(&at(CHARGE, &sink)).await;
    let id = api.start("charge", json!({ "order_id": 1 })).await;
    let wait = [("prefer", "wait=20")];
    let done = api.post_event_with(&id, &wait, "pay", json!({ "amount": 1 })).await.expect(200);
    assert_eq!((&done["status"], &done["to_state"]), (&json!("completed"), &json!("paying")), "{done}");
    let began = Instant::now();
    let rejected = api.post_event_with(&id, &wait, "pay", json!({ "amount": 1 })).await.expect(200);
    assert_eq!(rejected["status"], "rejected", "{rejected}");
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "it came when it was decided, after {:?}",
        began.elapsed()
    );
}

async fn a_caller_who_waits_too_short_gets_202(mode: Mode) {
    let sink = Sink::start().await;
    sink.script("/charge/1", [Answer::Hold(200)]);
    let world = start(mode).await;
    let api = &world.api;
    api.apply(&at(CHARGE, &sink)).await;
    let id = api.start("charge", json!({ "order_id": 1 })).await;
    let reply = api.post_event_with(&id, &[("prefer", "wait=1")], "pay", json!({ "amount": 1 })).await;
    let event = text(&reply.expect(202), "event_id");
    assert_eq!(reply.header("location"), Some(format!("/v1/events/{event}").as_str()));
    sink.release();
    assert_eq!(api.settled(&event).await["status"], "completed");
}

async fn until_applied_returns_before_the_actions(mode: Mode) {
    let sink = Sink::start().await;
    sink.script("/charge/1", [Answer::Hold(200)]);
    let world = start(mode).await;
    let api = &world.api;
    api.apply(&at(CHARGE, &sink)).await;
    let id = api.start("charge", json!({ "order_id": 1 })).await;
    let prefer = [("prefer", "wait=20, until=applied")];
    let applied = api.post_event_with(&id, &prefer, "pay", json!({ "amount": 1 })).await.expect(200);
    assert_eq!((&applied["status"], &applied["seq"]), (&json!("processing"), &json!(2)), "{applied}");
    assert_eq!(api.execution(&id).await["state"], "paying");
    sink.release();
    api.execution_in(&id, "completed").await;
}

async fn mode_sync_answers_with_the_outcome_and_back(mode: Mode) {
    let world = start(mode).await;
    let api = &world.api;
    api.apply(ORDER).await;
    let before = api.start("order", json!({})).await;
    api.apply(&ORDER.replace("name: order", "name: order\nmode: sync")).await;
    let during = api.start("order", json!({})).await;
    let done = api.post_event(&during, "pay", json!({ "amount": 1 })).await.expect(200);
    assert_eq!((&done["status"], &done["to_state"]), (&json!("completed"), &json!("paid")), "{done}");
    let waved = [("prefer", "respond-async")];
    api.post_event_with(&during, &waved, "ship", json!({})).await.expect(202);

    api.apply(ORDER).await;
    let after = api.start("order", json!({})).await;
    api.post_event(&after, "pay", json!({ "amount": 1 })).await.expect(202);
    api.post_event(&before, "pay", json!({ "amount": 1 })).await.expect(202);
}

async fn the_strict_check_refuses_what_the_state_cannot_take(mode: Mode) {
    let sink = Sink::start().await;
    let world = start(mode).await;
    let api = &world.api;
    api.apply(&at(CHARGE, &sink)).await;
    let id = api.start("charge", json!({ "order_id": 1 })).await;
    let strict = [("millstream-validate", "state")];
    api.post_event_with(&id, &strict, "charged", json!({})).await.problem(409);
    let pay = api.post_event_with(&id, &strict, "pay", json!({ "amount": 1 })).await.expect(202);
    api.settled(&text(&pay, "event_id")).await;
    api.execution_in(&id, "completed").await;
    api.post_event_with(&id, &strict, "pay", json!({ "amount": 1 })).await.problem(409);
    assert_eq!(api.names(&id).await, ["millstream.start", "pay", "charged"], "nothing was appended");
    api.post_event_with(&id, &[("millstream-validate", "everything")], "pay", json!({})).await.problem(400);
}

/// A paused execution keeps its events undecided: what the state will be at this one's turn is unknown.
async fn the_strict_check_does_not_guess_about_what_is_undecided(mode: Mode) {
    let sink = Sink::start().await;
    sink.script("/call", [Answer::Status(400), Answer::Status(200)]);
    let world = start(mode).await;
    let api = &world.api;
    api.apply(&at(FRAGILE, &sink)).await;
    let id = api.start("fragile", json!({})).await;
    let work = api.send_and_settle(&id, "work", json!({})).await;
    api.execution_in(&id, "paused").await;
    api.send(&id, "finish", json!({})).await;
    let strict = [("millstream-validate", "state")];
    let late = api.post_event_with(&id, &strict, "work", json!({})).await.expect(202);
    api.client.post(&format!("/v1/events/{}/retry", text(&work, "event_id")), &json!({})).await.expect(202);
    assert_eq!(api.settled(&text(&late, "event_id")).await["status"], "rejected");
    api.execution_in(&id, "completed").await;
}
