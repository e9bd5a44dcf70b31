//! Many events in one call: a verdict per item, in order, as JSON and as NDJSON.

use millstream_testkit::FleetMode;
use serde_json::{Value, json};

use crate::api::{page_items, text_field};
use crate::definitions::COUNTER;
use crate::world::start_world;

both_modes!(
    batch_items_have_separate_verdicts,
    lines_work_like_an_array,
    a_batch_keeps_its_order,
    oversized_batch_is_refused_whole,
);

async fn batch_items_have_separate_verdicts(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(COUNTER).await;
    let id = api.start("counter", json!({})).await;
    let batch = json!([
        { "execution_id": id, "name": "add", "payload": { "i": 1 } },
        { "execution_id": "missing", "name": "add" },
        { "execution_id": id, "name": "nonsense" },
        { "execution_id": id, "name": "add", "payload": { "i": 2 }, "idempotency_key": "k" },
        { "execution_id": id, "name": "add", "payload": { "i": 2 }, "idempotency_key": "k" },
        { "execution_id": id, "name": "add", "payload": { "i": 9 }, "idempotency_key": "k" },
        { "execution_id": id, "name": "add", "colour": "red" },
        { "execution_id": id, "name": "add", "payload": { "i": 3 } },
    ]);
    let verdicts = page_items(&api.client.post("/v1/events", &batch).await.expect_status(202));
    let short: Vec<Value> =
        verdicts
            .iter()
            .map(|verdict| {
                if verdict["event_id"].is_string() {
                    json!("ok")
                } else {
                    verdict["problem"]["status"].clone()
                }
            })
            .collect();
    assert_eq!(json!(short), json!(["ok", 404, 422, "ok", "ok", 422, 422, "ok"]), "{verdicts:?}");
    assert_eq!(verdicts[3]["event_id"], verdicts[4]["event_id"], "one key, one event");
    assert!(
        text_field(&verdicts[6]["problem"], "detail").contains("colour"),
        "the unknown field is named: {}",
        verdicts[6]
    );
    let counted = api.execution_until(&id, |seen| seen["context"]["n"] == 3).await;
    assert_eq!(counted["context"]["seen"], json!([1, 2, 3]));
}

async fn lines_work_like_an_array(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(COUNTER).await;
    let id = api.start("counter", json!({})).await;
    let line = |i: i32| json!({ "execution_id": id, "name": "add", "payload": { "i": i } }).to_string();
    let bad = json!({ "execution_id": "missing", "name": "add" }).to_string();
    let body = format!("{}\n{bad}\n\n{}\n", line(1), line(2));
    let reply = api.client.post_raw("/v1/events", "application/x-ndjson", body).await;
    let verdicts = page_items(&reply.expect_status(202));
    assert_eq!(verdicts.len(), 3, "empty lines are nothing: {verdicts:?}");
    assert_eq!(verdicts[1]["problem"]["status"], 404);
    let counted = api.execution_until(&id, |seen| seen["context"]["n"] == 2).await;
    assert_eq!(counted["context"]["seen"], json!([1, 2]));
}

async fn a_batch_keeps_its_order(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(COUNTER).await;
    let id = api.start("counter", json!({})).await;
    for batch in 0..2 {
        let events: Vec<_> = (0..300)
            .map(|i| json!({ "execution_id": id, "name": "add", "payload": { "i": batch * 300 + i } }))
            .collect();
        api.client.post("/v1/events", &json!(events)).await.expect_status(202);
    }
    let counted = api.execution_until(&id, |seen| seen["context"]["n"] == 600).await;
    assert_eq!(counted["context"]["seen"], json!((0..600).collect::<Vec<_>>()));
    assert_eq!(counted["seq"], 601);
}

async fn oversized_batch_is_refused_whole(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(COUNTER).await;
    let id = api.start("counter", json!({})).await;
    let item = json!({ "execution_id": id, "name": "add", "payload": { "i": 1 } });
    let many: Vec<_> = std::iter::repeat_n(&item, 1001).collect();
    api.client.post("/v1/events", &json!(many)).await.expect_problem(413);
    api.client.post("/v1/events", &json!([])).await.expect_status(202);
    assert_eq!(api.execution(&id).await["seq"], 1);
}
