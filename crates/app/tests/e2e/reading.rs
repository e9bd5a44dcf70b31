//! Reads: history, past states, lists and their cursors, workers, health, metrics, the OpenAPI document.

use millstream_testkit::{FleetMode, eventually};
use serde_json::json;

use crate::api::{page_items, text_field};
use crate::definitions::{COUNTER, ORDER};
use crate::world::{SOON, start_world};

both_modes!(
    history_lists_transitions_in_order,
    past_states_are_readable,
    lists_are_filtered_and_paged,
    events_are_listed_by_status,
    workers_and_health_are_visible,
);

async fn history_lists_transitions_in_order(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(ORDER).await;
    let id = api.start("order", json!({ "total": 2 })).await;
    let pay = api.send_and_settle(&id, "pay", json!({ "amount": 2 })).await;
    api.send_and_settle(&id, "pay", json!({ "amount": 2 })).await;
    api.send_and_settle(&id, "ship", json!({ "by": "ca\u{0}rt" })).await;
    let history = api.list(&id, "history").await;
    let seqs: Vec<_> = history.iter().map(|entry| entry["seq"].as_i64().unwrap()).collect();
    assert_eq!(seqs, [1, 2, 3], "what was rejected is not in it");
    assert_eq!((&history[0]["name"], &history[0]["from_state"]), (&json!("millstream.start"), &json!(null)));
    assert_eq!(
        (&history[0]["payload"], &history[0]["to_state"]),
        (&json!({ "total": 2 }), &json!("received"))
    );
    assert_eq!((&history[1]["event_id"], &history[1]["actions"]), (&pay["event_id"], &json!(["note"])));
    assert_eq!(history[2]["payload"], json!({ "by": "ca\u{0}rt" }), "payloads come back as they were sent");
    let times: Vec<_> = history.iter().map(|entry| text_field(entry, "at")).collect();
    assert!(
        times.is_sorted() && times[0].ends_with('Z') && times[0].len() == "2024-01-01T00:00:00.000Z".len(),
        "{times:?}"
    );
}

async fn past_states_are_readable(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(COUNTER).await;
    let id = api.start("counter", json!({})).await;
    for i in 0..6 {
        api.send_and_settle(&id, "add", json!({ "i": i })).await;
    }
    for seq in 1..=7 {
        let then = api.client.get(&format!("/v1/executions/{id}?at_seq={seq}")).await.expect_status(200);
        assert_eq!((&then["seq"], &then["context"]["n"]), (&json!(seq), &json!(seq - 1)));
    }
    api.client.get(&format!("/v1/executions/{id}?at_seq=8")).await.expect_problem(404);
    let third = text_field(&api.list(&id, "history").await[2], "at");
    let then = api.client.get(&format!("/v1/executions/{id}?at={third}")).await.expect_status(200);
    assert!(then["seq"].as_i64().unwrap() >= 3, "the last transition at that time: {then}");
    assert_eq!(then["context"]["n"].as_i64(), then["seq"].as_i64().map(|seq| seq - 1));
    api.client.get(&format!("/v1/executions/{id}?at=2001-01-01T00:00:00Z")).await.expect_problem(404);
    api.client.get(&format!("/v1/executions/{id}?at=yesterday")).await.expect_problem(422);
}

async fn lists_are_filtered_and_paged(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(ORDER).await;
    api.apply(COUNTER).await;
    for i in 0..7 {
        let body = json!({ "definition": "order", "execution_id": format!("o-{i}") });
        api.client.post("/v1/executions", &body).await.expect_status(201);
    }
    api.start("counter", json!({})).await;
    api.send_and_settle("o-3", "pay", json!({ "amount": 1 })).await;

    let first = api.client.get("/v1/executions?definition=order&limit=3").await.expect_status(200);
    let ids = |page: &serde_json::Value| -> Vec<String> {
        page_items(page).iter().map(|one| text_field(one, "execution_id")).collect()
    };
    assert_eq!(ids(&first), ["o-6", "o-5", "o-4"], "newest first");
    let cursor = text_field(&first, "next_cursor");
    let second = api
        .client
        .get(&format!("/v1/executions?definition=order&limit=3&cursor={cursor}"))
        .await
        .expect_status(200);
    assert_eq!(ids(&second), ["o-3", "o-2", "o-1"]);
    let cursor = text_field(&second, "next_cursor");
    let third = api
        .client
        .get(&format!("/v1/executions?definition=order&limit=3&cursor={cursor}"))
        .await
        .expect_status(200);
    assert_eq!((ids(&third), &third["next_cursor"]), (vec!["o-0".to_owned()], &json!(null)));

    assert_eq!(ids(&api.client.get("/v1/executions?state=paid").await.expect_status(200)), ["o-3"]);
    assert_eq!(
        ids(&api.client.get("/v1/executions?status=completed").await.expect_status(200)),
        Vec::<String>::new()
    );
    api.client.get("/v1/executions?status=sleeping").await.expect_problem(422);
    api.client.get("/v1/executions?colour=red").await.expect_problem(422);
    api.client.get("/v1/executions?cursor=made-up").await.expect_problem(422);
}

async fn events_are_listed_by_status(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(ORDER).await;
    let id = api.start("order", json!({})).await;
    let ship = api.send(&id, "ship", json!({})).await;
    api.event_in(&ship, "deferred").await;
    let deferred = page_items(&api.client.get("/v1/events?status=deferred").await.expect_status(200));
    assert_eq!(deferred.iter().map(|event| text_field(event, "event_id")).collect::<Vec<_>>(), [ship]);
}

async fn workers_and_health_are_visible(mode: FleetMode) {
    let world = start_world(mode).await;
    let client = &world.api.client;
    let workers = eventually(SOON, || async {
        let found = page_items(&client.get("/v1/workers").await.expect_status(200));
        if found.is_empty() { Err("no worker is listed") } else { Ok(found) }
    })
    .await;
    assert!(workers.iter().all(|worker| worker["worker_id"].is_string()), "{workers:?}");
    assert_eq!(client.get("/healthz").await.status, 200);
    assert_eq!(client.get("/readyz").await.status, 200);
    let metrics = client.get("/metrics").await;
    assert!(metrics.status == 200 && metrics.body.contains("# TYPE millstream"), "{}", metrics.body);
    let description = client.get("/openapi.json").await.expect_status(200);
    let paths = description["paths"].as_object().expect("paths");
    for (path, method) in [
        ("/v1/definitions", "post"),
        ("/v1/executions", "post"),
        ("/v1/executions/{execution_id}", "get"),
        ("/v1/executions/{execution_id}/history", "get"),
        ("/v1/executions/{execution_id}/events", "post"),
        ("/v1/executions/{execution_id}/tail", "get"),
        ("/v1/executions/{execution_id}/cancel", "post"),
        ("/v1/events", "post"),
        ("/v1/events/{event_id}/retry", "post"),
        ("/v1/workers", "get"),
    ] {
        assert!(
            paths.get(path).is_some_and(|path| path[method].is_object()),
            "{method} {path}: {:?}",
            paths.keys()
        );
    }
}
