//! Callers that wait: `Prefer`, definitions with `mode: sync`, and the strict check at submission.

use std::time::{Duration, Instant};

use millstream_testkit::sink::SinkAnswer;
use millstream_testkit::{FleetMode, TestSink};
use serde_json::json;

use crate::api::text_field;
use crate::definitions::{CHARGE, FRAGILE, ORDER, definition_with_sink};
use crate::world::start_world;

both_modes!(
    waiting_caller_gets_the_outcome,
    short_wait_answers_202,
    wait_until_applied_precedes_actions,
    sync_mode_answers_with_outcome,
    strict_check_refuses_unhandled_event,
    strict_check_accepts_while_undecided,
);

async fn waiting_caller_gets_the_outcome(mode: FleetMode) {
    let sink = TestSink::start().await;
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(&definition_with_sink(CHARGE, &sink)).await;
    let id = api.start("charge", json!({ "order_id": 1 })).await;
    let wait = [("prefer", "wait=20")];
    let done = api.post_event_with(&id, &wait, "pay", json!({ "amount": 1 })).await.expect_status(200);
    assert_eq!((&done["status"], &done["to_state"]), (&json!("completed"), &json!("paying")), "{done}");
    let began = Instant::now();
    let rejected = api.post_event_with(&id, &wait, "pay", json!({ "amount": 1 })).await.expect_status(200);
    assert_eq!(rejected["status"], "rejected", "{rejected}");
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "it came when it was decided, after {:?}",
        began.elapsed()
    );
}

async fn short_wait_answers_202(mode: FleetMode) {
    let sink = TestSink::start().await;
    sink.set_answers("/charge/1", [SinkAnswer::Hold(200)]);
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(&definition_with_sink(CHARGE, &sink)).await;
    let id = api.start("charge", json!({ "order_id": 1 })).await;
    let reply = api.post_event_with(&id, &[("prefer", "wait=1")], "pay", json!({ "amount": 1 })).await;
    let event = text_field(&reply.expect_status(202), "event_id");
    assert_eq!(reply.header("location"), Some(format!("/v1/events/{event}").as_str()));
    sink.release_held();
    assert_eq!(api.settled_event(&event).await["status"], "completed");
}

async fn wait_until_applied_precedes_actions(mode: FleetMode) {
    let sink = TestSink::start().await;
    sink.set_answers("/charge/1", [SinkAnswer::Hold(200)]);
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(&definition_with_sink(CHARGE, &sink)).await;
    let id = api.start("charge", json!({ "order_id": 1 })).await;
    let prefer = [("prefer", "wait=20, until=applied")];
    let applied = api.post_event_with(&id, &prefer, "pay", json!({ "amount": 1 })).await.expect_status(200);
    assert_eq!((&applied["status"], &applied["seq"]), (&json!("processing"), &json!(2)), "{applied}");
    assert_eq!(api.execution(&id).await["state"], "paying");
    sink.release_held();
    api.execution_in(&id, "completed").await;
}

async fn sync_mode_answers_with_outcome(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(ORDER).await;
    let before = api.start("order", json!({})).await;
    api.apply(&ORDER.replace("name: order", "name: order\nmode: sync")).await;
    let during = api.start("order", json!({})).await;
    let done = api.post_event(&during, "pay", json!({ "amount": 1 })).await.expect_status(200);
    assert_eq!((&done["status"], &done["to_state"]), (&json!("completed"), &json!("paid")), "{done}");
    let waved = [("prefer", "respond-async")];
    api.post_event_with(&during, &waved, "ship", json!({})).await.expect_status(202);

    api.apply(ORDER).await;
    let after = api.start("order", json!({})).await;
    api.post_event(&after, "pay", json!({ "amount": 1 })).await.expect_status(202);
    api.post_event(&before, "pay", json!({ "amount": 1 })).await.expect_status(202);
}

async fn strict_check_refuses_unhandled_event(mode: FleetMode) {
    let sink = TestSink::start().await;
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(&definition_with_sink(CHARGE, &sink)).await;
    let id = api.start("charge", json!({ "order_id": 1 })).await;
    let strict = [("millstream-validate", "state")];
    api.post_event_with(&id, &strict, "charged", json!({})).await.expect_problem(409);
    let pay = api.post_event_with(&id, &strict, "pay", json!({ "amount": 1 })).await.expect_status(202);
    api.settled_event(&text_field(&pay, "event_id")).await;
    api.execution_in(&id, "completed").await;
    api.post_event_with(&id, &strict, "pay", json!({ "amount": 1 })).await.expect_problem(409);
    assert_eq!(
        api.transition_names(&id).await,
        ["millstream.start", "pay", "charged"],
        "nothing was appended"
    );
    api.post_event_with(&id, &[("millstream-validate", "everything")], "pay", json!({}))
        .await
        .expect_problem(400);
}

/// A paused execution keeps its events undecided: what the state will be at this one's turn is unknown.
async fn strict_check_accepts_while_undecided(mode: FleetMode) {
    let sink = TestSink::start().await;
    sink.set_answers("/call", [SinkAnswer::Status(400), SinkAnswer::Status(200)]);
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(&definition_with_sink(FRAGILE, &sink)).await;
    let id = api.start("fragile", json!({})).await;
    let work = api.send_and_settle(&id, "work", json!({})).await;
    api.execution_in(&id, "paused").await;
    api.send(&id, "finish", json!({})).await;
    let strict = [("millstream-validate", "state")];
    let late = api.post_event_with(&id, &strict, "work", json!({})).await.expect_status(202);
    api.client
        .post(&format!("/v1/events/{}/retry", text_field(&work, "event_id")), &json!({}))
        .await
        .expect_status(202);
    assert_eq!(api.settled_event(&text_field(&late, "event_id")).await["status"], "rejected");
    api.execution_in(&id, "completed").await;
}
