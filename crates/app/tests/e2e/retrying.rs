//! A permanently failed action pauses its execution until a person decides.

use millstream_testkit::sink::Answer;
use millstream_testkit::{Mode, Sink};
use serde_json::json;

use crate::api::text;
use crate::definitions::{FRAGILE, at};
use crate::world::start;

both_modes!(retries_used_up_pause_the_execution_until_a_retry, a_paused_execution_can_be_cancelled);

async fn retries_used_up_pause_the_execution_until_a_retry(mode: Mode) {
    let sink = Sink::start().await;
    sink.script("/call", [Answer::Status(500)]);
    let world = start(mode).await;
    let api = &world.api;
    api.apply(&at(FRAGILE, &sink)).await;
    let id = api.start("fragile", json!({})).await;
    let work = api.send_and_settle(&id, "work", json!({})).await;
    assert_eq!(work["status"], "failed", "{work}");
    assert!(!text(&work, "error").is_empty(), "{work}");
    let paused = api.execution_in(&id, "paused").await;
    assert_eq!(paused["state"], "working", "the transition stands: {paused}");
    assert_eq!(sink.calls().len(), 2);
    let actions = api.list(&id, "actions").await;
    let status = |name: &str| text(actions.iter().find(|action| action["action"] == name).unwrap(), "status");
    assert_eq!((status("call").as_str(), status("report").as_str()), ("failed", "skipped"));

    let note = api.send(&id, "note", json!({})).await;
    let retry = format!("/v1/events/{}/retry", text(&work, "event_id"));
    sink.script("/call", [Answer::Status(500), Answer::Status(200)]);
    assert_eq!(api.event(&note).await["status"], "pending", "nothing is decided while it is paused");
    api.client.post(&format!("/v1/events/{note}/retry"), &json!({})).await.problem(409);
    api.client.post(&retry, &json!({})).await.expect(202);
    let work = api.settled(&text(&work, "event_id")).await;
    assert_eq!(work["status"], "completed", "{work}");
    assert_eq!(api.settled(&note).await["status"], "completed");
    let resumed = api.execution(&id).await;
    assert_eq!((&resumed["status"], &resumed["context"]["notes"]), (&json!("active"), &json!(1)));
    assert_eq!(sink.calls().len(), 4, "the retry has all its attempts again");

    api.client.post(&retry, &json!({})).await.problem(409);
    let missing = "/v1/events/018f0000-0000-7000-8000-000000000000/retry";
    api.client.post(missing, &json!({})).await.problem(404);
}

async fn a_paused_execution_can_be_cancelled(mode: Mode) {
    let sink = Sink::start().await;
    sink.script("/call", [Answer::Status(400)]);
    let world = start(mode).await;
    let api = &world.api;
    api.apply(&at(FRAGILE, &sink)).await;
    let id = api.start("fragile", json!({})).await;
    api.send_and_settle(&id, "work", json!({})).await;
    api.execution_in(&id, "paused").await;
    let note = api.send(&id, "note", json!({})).await;
    api.client.post(&format!("/v1/executions/{id}/cancel"), &json!({})).await.expect(202);
    api.execution_in(&id, "cancelled").await;
    assert_eq!(api.settled(&note).await["status"], "rejected");
}
