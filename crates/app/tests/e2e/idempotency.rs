//! One key, one event: repeated, concurrent, reused, refused.

use std::collections::BTreeSet;

use millstream_testkit::Mode;
use serde_json::json;

use crate::api::text;
use crate::definitions::COUNTER;
use crate::world::start;

both_modes!(
    a_repeated_key_answers_with_the_same_event_and_its_status,
    fifty_concurrent_posts_of_one_key_are_one_event,
    a_key_reused_for_other_content_is_refused,
    a_refused_request_does_not_burn_its_key,
    batches_with_crossed_keys_do_not_block_each_other,
);

async fn a_repeated_key_answers_with_the_same_event_and_its_status(mode: Mode) {
    let world = start(mode).await;
    let api = &world.api;
    api.apply(COUNTER).await;
    let id = api.start("counter", json!({})).await;
    let key = [("idempotency-key", "k-1")];
    let first = api.post_event_with(&id, &key, "add", json!({ "i": 1 })).await.expect(202);
    api.settled(&text(&first, "event_id")).await;
    let again = api.post_event_with(&id, &key, "add", json!({ "i": 1 })).await.expect(202);
    assert_eq!(again["event_id"], first["event_id"]);
    assert_eq!(again["status"], "completed");
    assert_eq!(api.execution(&id).await["context"]["n"], 1);
}

async fn fifty_concurrent_posts_of_one_key_are_one_event(mode: Mode) {
    let world = start(mode).await;
    let api = &world.api;
    api.apply(COUNTER).await;
    let id = api.start("counter", json!({})).await;
    let posts: Vec<_> = (0..50)
        .map(|_| {
            let (api, id) = (api.clone(), id.clone());
            tokio::spawn(async move {
                api.post_event_with(&id, &[("idempotency-key", "one")], "add", json!({ "i": 1 }))
                    .await
                    .expect(202)
            })
        })
        .collect();
    let mut ids = BTreeSet::new();
    for post in posts {
        ids.insert(text(&post.await.unwrap(), "event_id"));
    }
    assert_eq!(ids.len(), 1, "{ids:?}");
    api.settled(ids.first().unwrap()).await;
    api.send_and_settle(&id, "add", json!({ "i": 2 })).await;
    assert_eq!(api.execution(&id).await["context"]["seen"], json!([1, 2]));
    assert_eq!(api.names(&id).await, ["millstream.start", "add", "add"]);
}

async fn a_key_reused_for_other_content_is_refused(mode: Mode) {
    let world = start(mode).await;
    let api = &world.api;
    api.apply(COUNTER).await;
    let (one, two) = (api.start("counter", json!({})).await, api.start("counter", json!({})).await);
    let key = [("idempotency-key", "k")];
    let first = api.post_event_with(&one, &key, "add", json!({ "i": 1 })).await.expect(202);
    api.post_event_with(&one, &key, "add", json!({ "i": 2 })).await.problem(422);
    api.post_event_with(&one, &key, "stop", json!({ "i": 1 })).await.problem(422);
    api.post_event_with(&two, &key, "add", json!({ "i": 1 })).await.problem(422);
    api.settled(&text(&first, "event_id")).await;
    assert_eq!(api.execution(&one).await["seq"], 2);
    assert_eq!(api.execution(&two).await["seq"], 1);
}

async fn a_refused_request_does_not_burn_its_key(mode: Mode) {
    let world = start(mode).await;
    let api = &world.api;
    api.apply(COUNTER).await;
    let key = [("idempotency-key", "k")];
    api.post_event_with("later", &key, "add", json!({ "i": 1 })).await.problem(404);
    let body = json!({ "definition": "counter", "execution_id": "later" });
    api.client.post("/v1/executions", &body).await.expect(201);
    api.post_event_with("later", &key, "nonsense", json!({ "i": 1 })).await.problem(422);
    let accepted = api.post_event_with("later", &key, "add", json!({ "i": 1 })).await.expect(202);
    assert_eq!(api.settled(&text(&accepted, "event_id")).await["status"], "completed");
}

/// Two clients repeatedly send the same keys for the same executions in opposite orders.
async fn batches_with_crossed_keys_do_not_block_each_other(mode: Mode) {
    const ROUNDS: usize = 40;
    const KEYS: usize = 12;
    let world = start(mode).await;
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
        let ids = |reply: &millstream_testkit::Reply| -> Vec<String> {
            crate::api::items(&reply.expect(202)).iter().map(|item| text(item, "event_id")).collect()
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
