//! Cancellation from outside: final, and including work in progress.

use millstream_testkit::sink::SinkAnswer;
use millstream_testkit::{FleetMode, TestSink, eventually};
use serde_json::json;

use crate::definitions::{FRAGILE, ORDER, definition_with_sink};
use crate::world::{SOON, start_world};

both_modes!(cancelled_execution_accepts_no_events, cancel_stops_pending_actions);

async fn cancelled_execution_accepts_no_events(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(ORDER).await;
    let id = api.start("order", json!({})).await;
    let ship = api.send(&id, "ship", json!({})).await;
    api.event_in(&ship, "deferred").await;
    let cancel = format!("/v1/executions/{id}/cancel");
    api.client.post(&cancel, &json!({})).await.expect_status(202);
    let cancelled = api.execution_in(&id, "cancelled").await;
    assert_eq!(cancelled["state"], "received", "{cancelled}");
    assert_eq!(api.settled_event(&ship).await["status"], "rejected");
    assert_eq!(api.send_and_settle(&id, "pay", json!({ "amount": 1 })).await["status"], "rejected");
    api.client.post(&cancel, &json!({})).await.expect_problem(409);
    api.client.post("/v1/executions/missing/cancel", &json!({})).await.expect_problem(404);
}

async fn cancel_stops_pending_actions(mode: FleetMode) {
    let sink = TestSink::start().await;
    sink.set_answers("/call", [SinkAnswer::Hold(200)]);
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(&definition_with_sink(FRAGILE, &sink)).await;
    let id = api.start("fragile", json!({})).await;
    let work = api.send(&id, "work", json!({})).await;
    eventually(SOON, || {
        std::future::ready(if sink.recorded_calls().is_empty() {
            Err("the action has not begun")
        } else {
            Ok(())
        })
    })
    .await;
    api.client.post(&format!("/v1/executions/{id}/cancel"), &json!({})).await.expect_status(202);
    api.execution_in(&id, "cancelled").await;
    sink.release_held();
    api.settled_event(&work).await;
    let actions = api.list(&id, "actions").await;
    let settled = ["succeeded", "cancelled", "skipped", "failed"];
    assert!(
        actions.iter().all(|action| settled.contains(&action["status"].as_str().unwrap())),
        "{actions:?}"
    );
}
