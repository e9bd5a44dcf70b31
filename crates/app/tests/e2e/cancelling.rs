//! Cancellation from outside: final, and including work in progress.

use millstream_testkit::sink::Answer;
use millstream_testkit::{Mode, Sink, eventually};
use serde_json::json;

use crate::definitions::{FRAGILE, ORDER, at};
use crate::world::{SOON, start};

both_modes!(a_cancelled_execution_takes_no_more_events, cancelling_stops_what_has_not_begun);

async fn a_cancelled_execution_takes_no_more_events(mode: Mode) {
    let world = start(mode).await;
    let api = &world.api;
    api.apply(ORDER).await;
    let id = api.start("order", json!({})).await;
    let ship = api.send(&id, "ship", json!({})).await;
    api.event_in(&ship, "deferred").await;
    let cancel = format!("/v1/executions/{id}/cancel");
    api.client.post(&cancel, &json!({})).await.expect(202);
    let cancelled = api.execution_in(&id, "cancelled").await;
    assert_eq!(cancelled["state"], "received", "{cancelled}");
    assert_eq!(api.settled(&ship).await["status"], "rejected");
    assert_eq!(api.send_and_settle(&id, "pay", json!({ "amount": 1 })).await["status"], "rejected");
    api.client.post(&cancel, &json!({})).await.problem(409);
    api.client.post("/v1/executions/missing/cancel", &json!({})).await.problem(404);
}

async fn cancelling_stops_what_has_not_begun(mode: Mode) {
    let sink = Sink::start().await;
    sink.script("/call", [Answer::Hold(200)]);
    let world = start(mode).await;
    let api = &world.api;
    api.apply(&at(FRAGILE, &sink)).await;
    let id = api.start("fragile", json!({})).await;
    let work = api.send(&id, "work", json!({})).await;
    eventually(SOON, || {
        std::future::ready(if sink.calls().is_empty() { Err("the action has not begun") } else { Ok(()) })
    })
    .await;
    api.client.post(&format!("/v1/executions/{id}/cancel"), &json!({})).await.expect(202);
    api.execution_in(&id, "cancelled").await;
    sink.release();
    api.settled(&work).await;
    let actions = api.list(&id, "actions").await;
    let settled = ["succeeded", "cancelled", "skipped", "failed"];
    assert!(
        actions.iter().all(|action| settled.contains(&action["status"].as_str().unwrap())),
        "{actions:?}"
    );
}
