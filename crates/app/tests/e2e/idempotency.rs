//! One key, one event: repeated, concurrent, reused, refused.

use std::collections::BTreeSet;

use millstream_testkit::FleetMode;
use serde_json::json;

use crate::api::text_field;
use crate::definitions::COUNTER;
use crate::world::start_world;

both_modes!(
    repeated_key_returns_same_event,
    concurrent_posts_of_key_are_one_event,
    key_reused_with_other_content_is_refused,
    refused_request_keeps_key_usable,
    crossed_key_batches_do_not_deadlock,
);

async fn repeated_key_returns_same_event(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(COUNTER).await;
    let id = api.start("counter", json!({})).await;
    let key = [("idempotency-key", "k-1")];
    let first = api.post_event_with(&id, &key, "add", json!({ "i": 1 })).await.expect_status(202);
    api.settled_event(&text_field(&first, "event_id")).await;
    let again = api.post_event_with(&id, &key, "add", json!({ "i": 1 })).await.expect_status(202);
    assert_eq!(again["event_id"], first["event_id"]);
    assert_eq!(again["status"], "completed");
    assert_eq!(api.execution(&id).await["context"]["n"], 1);
}

async fn concurrent_posts_of_key_are_one_event(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(COUNTER).await;
    let id = api.start("counter", json!({})).await;
    let posts: Vec<_> = (0..50)
        .map(|_| {
            let (api, id) = (api.clone(), id.clone());
            tokio::spawn(async move {
                api.post_event_with(&id, &[("idempotency-key", "one")], "add", json!({ "i": 1 }))
                    .await
                    .expect_status(202)
            })
        })
        .collect();
    let mut ids = BTreeSet::new();
    for post in posts {
        ids.insert(text_field(&post.await.unwrap(), "event_id"));
    }
    assert_eq!(ids.len(), 1, "{ids:?}");
    api.settled_event(ids.first().unwrap()).await;
    api.send_and_settle(&id, "add", json!({ "i": 2 })).await;
    assert_eq!(api.execution(&id).await["context"]["seen"], json!([1, 2]));
    assert_eq!(api.transition_names(&id).await, ["millstream.start", "add", "add"]);
}

async fn key_reused_with_other_content_is_refused(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(COUNTER).await;
    let (one, two) = (api.start("counter", json!({})).await, api.start("counter", json!({})).await);
    let key = [("idempotency-key", "k")];
    let first = api.post_event_with(&one, &key, "add", json!({ "i": 1 })).await.expect_status(202);
    api.post_event_with(&one, &key, "add", json!({ "i": 2 })).await.expect_problem(422);
    api.post_event_with(&one, &key, "stop", json!({ "i": 1 })).await.expect_problem(422);
    api.post_event_with(&two, &key, "add", json!({ "i": 1 })).await.expect_problem(422);
    api.settled_event(&text_field(&first, "event_id")).await;
    assert_eq!(api.execution(&one).await["seq"], 2);
    assert_eq!(api.execution(&two).await["seq"], 1);
}

async fn refused_request_keeps_key_usable(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(COUNTER).await;
    let key = [("idempotency-key", "k")];
    api.post_event_with("later", &key, "add", json!({ "i": 1 })).await.expect_problem(404);
    let body = json!({ "definition": "counter", "execution_id": "later" });
    api.client.post("/v1/executions", &body).await.expect_status(201);
    api.post_event_with("later", &key, "nonsense", json!({ "i": 1 })).await.expect_problem(422);
    let accepted = api.post_event_with("later", &key, "add", json!({ "i": 1 })).await.expect_status(202);
    assert_eq!(api.settled_event(&text_field(&accepted, "event_id")).await["status"], "completed");
}

/// Two clients repeatedly send the same keys for the same executions in opposite orders.
async fn crossed_key_batches_do_not_deadlock(mode: FleetMode) {
    const ROUNDS: usize = 40;
    const KEYS: usize = 12;
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(COUNTER).await;
    let starts: Vec<_> =
        (0..KEYS).map(|k| json!({ "definition": "counter", "execution_id": format!("x-{k}") })).collect();
    let reply = api.client.post("/v1/executions", &json!(starts)).await;
    assert!(reply.status < 300, "{}", reply.body);
    let batch = |round: usize, order: Vec<usize>| -> serde_json::Value {
        let item = |k: &usize| {
            json!({
                "execution_id": format!("x-{k}"), "name": "add", "payload": { "i": round },
                "idempotency_key": format!("{round}-{k}"),
            })
        };
        order.iter().map(item).collect()
    };
    for round in 0..ROUNDS {
        let (up, down) = (batch(round, (0..KEYS).collect()), batch(round, (0..KEYS).rev().collect()));
        let (up, down) =
            tokio::join!(api.client.post("/v1/events", &up), api.client.post("/v1/events", &down));
        let ids = |reply: &millstream_testkit::TestReply| -> Vec<String> {
            crate::api::page_items(&reply.expect_status(202))
                .iter()
                .map(|item| text_field(item, "event_id"))
                .collect()
        };
        let (up, mut down) = (ids(&up), ids(&down));
        down.reverse();
        assert_eq!(up, down, "both clients hear of the same events");
    }
    for k in 0..KEYS {
        let counted = api.execution_until(&format!("x-{k}"), |seen| seen["context"]["n"] == ROUNDS).await;
        assert_eq!(counted["context"]["seen"], json!((0..ROUNDS).collect::<Vec<_>>()));
    }
}
