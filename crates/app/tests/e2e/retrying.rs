//! A permanently failed action pauses its execution until a person decides.

use millstream_testkit::sink::SinkAnswer;
use millstream_testkit::{FleetMode, TestSink};
use serde_json::json;

use crate::api::text_field;
use crate::definitions::{FRAGILE, definition_with_sink};
use crate::world::start_world;

both_modes!(exhausted_retries_pause_the_execution, a_paused_execution_can_be_cancelled);

async fn exhausted_retries_pause_the_execution(mode: FleetMode) {
    let sink = TestSink::start().await;
    sink.set_answers("/call", [SinkAnswer::Status(500)]);
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(&definition_with_sink(FRAGILE, &sink)).await;
    let id = api.start("fragile", json!({})).await;
    let work = api.send_and_settle(&id, "work", json!({})).await;
    assert_eq!(work["status"], "failed", "{work}");
    assert!(!text_field(&work, "error").is_empty(), "{work}");
    let paused = api.execution_in(&id, "paused").await;
    assert_eq!(paused["state"], "working", "the transition stands: {paused}");
    assert_eq!(sink.recorded_calls().len(), 2);
    let actions = api.list(&id, "actions").await;
    let status =
        |name: &str| text_field(actions.iter().find(|action| action["action"] == name).unwrap(), "status");
    assert_eq!((status("call").as_str(), status("report").as_str()), ("failed", "skipped"));

    let note = api.send(&id, "note", json!({})).await;
    let retry = format!("/v1/events/{}/retry", text_field(&work, "event_id"));
    sink.set_answers("/call", [SinkAnswer::Status(500), SinkAnswer::Status(200)]);
    assert_eq!(api.event(&note).await["status"], "pending", "nothing is decided while it is paused");
    api.client.post(&format!("/v1/events/{note}/retry"), &json!({})).await.expect_problem(409);
    api.client.post(&retry, &json!({})).await.expect_status(202);
    let work = api.settled_event(&text_field(&work, "event_id")).await;
    assert_eq!(work["status"], "completed", "{work}");
    assert_eq!(api.settled_event(&note).await["status"], "completed");
    let resumed = api.execution(&id).await;
    assert_eq!((&resumed["status"], &resumed["context"]["notes"]), (&json!("active"), &json!(1)));
    assert_eq!(sink.recorded_calls().len(), 4, "the retry has all its attempts again");

    api.client.post(&retry, &json!({})).await.expect_problem(409);
    let missing = "/v1/events/018f0000-0000-7000-8000-000000000000/retry";
    api.client.post(missing, &json!({})).await.expect_problem(404);
}

async fn a_paused_execution_can_be_cancelled(mode: FleetMode) {
    let sink = TestSink::start().await;
    sink.set_answers("/call", [SinkAnswer::Status(400)]);
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(&definition_with_sink(FRAGILE, &sink)).await;
    let id = api.start("fragile", json!({})).await;
    api.send_and_settle(&id, "work", json!({})).await;
    api.execution_in(&id, "paused").await;
    let note = api.send(&id, "note", json!({})).await;
    api.client.post(&format!("/v1/executions/{id}/cancel"), &json!({})).await.expect_status(202);
    api.execution_in(&id, "cancelled").await;
    assert_eq!(api.settled_event(&note).await["status"], "rejected");
}
