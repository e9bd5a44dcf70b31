//! Following an execution live, and resumption after a disconnect.

use std::time::Duration;

use millstream_testkit::{FleetMode, TestTail};
use serde_json::json;

use crate::definitions::COUNTER;
use crate::world::start_world;

both_modes!(tail_follows_and_resumes, tail_of_missing_execution_is_404);

const LIVE: Duration = Duration::from_secs(15);

async fn tail_follows_and_resumes(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(COUNTER).await;
    let id = api.start("counter", json!({})).await;
    let path = format!("/v1/executions/{id}/tail");
    let mut tail = TestTail::open(&api.client, &path, None).await;
    let first = tail.next(LIVE).await.expect("the start");
    assert_eq!((first.id.as_str(), &first.data["name"]), ("1", &json!("millstream.start")));
    for i in 0..3 {
        api.send(&id, "add", json!({ "i": i })).await;
        let message = tail.next(LIVE).await.expect("a transition");
        assert_eq!((message.id, &message.data["payload"]["i"]), ((i + 2).to_string(), &json!(i)));
    }
    drop(tail);

    for i in 3..6 {
        api.send_and_settle(&id, "add", json!({ "i": i })).await;
    }
    let mut resumed = TestTail::open(&api.client, &path, Some("4")).await;
    for seq in 5..=7 {
        assert_eq!(resumed.next(LIVE).await.expect("what was missed").id, seq.to_string());
    }
    api.send(&id, "stop", json!({})).await;
    let last = resumed.next(LIVE).await.expect("the live one");
    assert_eq!((last.id.as_str(), &last.data["to_state"]), ("8", &json!("stopped")));
}

async fn tail_of_missing_execution_is_404(mode: FleetMode) {
    let world = start_world(mode).await;
    world.api.client.get("/v1/executions/missing/tail").await.expect_problem(404);
}
