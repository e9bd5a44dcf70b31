//! Order and completeness under concurrency.

use millstream_testkit::{FleetMode, eventually};
use serde_json::json;

use crate::api::text_field;
use crate::definitions::{COUNTER, ORDER};
use crate::world::{E2eWorld, SOON, start_with};

both_modes!(concurrent_events_are_applied_in_order, a_thousand_executions_all_finish);

async fn with_four_workers(mode: FleetMode) -> E2eWorld {
    match mode {
        FleetMode::Embedded => start_with(mode, &[("MILLSTREAM_DEV__WORKERS", "4")]).await,
        FleetMode::Fleet { .. } => start_with(FleetMode::Fleet { workers: 4 }, &[]).await,
    }
}

async fn concurrent_events_are_applied_in_order(mode: FleetMode) {
    let world = with_four_workers(mode).await;
    let api = &world.api;
    api.apply(COUNTER).await;
    let id = api.start("counter", json!({})).await;
    let mut sent = Vec::new();
    for i in 0..200 {
        sent.push(api.send(&id, "add", json!({ "i": i })).await);
    }
    let counted = api.execution_until(&id, |seen| seen["context"]["n"] == 200).await;
    assert_eq!(counted["context"]["seen"], json!((0..200).collect::<Vec<_>>()));
    let history = api.list(&id, "history").await;
    let applied: Vec<_> = history.iter().skip(1).map(|entry| text_field(entry, "event_id")).collect();
    assert_eq!(applied, sent);
    let seqs: Vec<_> = history.iter().map(|entry| entry["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=201).collect::<Vec<_>>());
}

async fn a_thousand_executions_all_finish(mode: FleetMode) {
    const EXECUTIONS: usize = 1_000;
    const CLIENTS: usize = 20;
    let world = with_four_workers(mode).await;
    world.api.apply(ORDER).await;
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let api = world.api.clone();
            tokio::spawn(async move {
                for i in 0..EXECUTIONS / CLIENTS {
                    let id = format!("o-{client}-{i}");
                    let body = json!({ "definition": "order", "execution_id": id, "input": { "total": i } });
                    api.client.post("/v1/executions", &body).await.expect_status(201);
                    api.send(&id, "ship", json!({})).await;
                    api.send(&id, "pay", json!({ "amount": i })).await;
                }
            })
        })
        .collect();
    for client in clients {
        client.await.unwrap();
    }
    eventually(SOON * 2, || async {
        let open = world.api.all_pages("/v1/executions?status=active&limit=500").await.len();
        if open == 0 { Ok(()) } else { Err(format!("{open} are still active")) }
    })
    .await;
    let done = world.api.all_pages("/v1/executions?status=completed&state=shipped&limit=100").await;
    assert_eq!(done.len(), EXECUTIONS);
    let mut ids: Vec<_> = done.iter().map(|one| text_field(one, "execution_id")).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), EXECUTIONS, "no page repeats another");
}
