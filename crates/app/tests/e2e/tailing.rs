//! Following an execution live, and resumption after a disconnect.

use std::time::Duration;

use millstream_testkit::{Mode, Tail};
use serde_json::json;

use crate::definitions::COUNTER;
use crate::world::start;

both_modes!(a_tail_follows_and_resumes, a_tail_of_nobody_is_not_found);

const LIVE: Duration = Duration::from_secs(15);

async fn a_tail_follows_and_resumes(mode: Mode) {
    let world = start(mode).await;
    let api = &world.api;
    api.apply(COUNTER).await;
    let id = api.start("counter", json!({})).await;
    let path = format!("/v1/executions/{id}/tail");
    let mut tail = Tail::open(&api.client, &path, None).await;
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
    let mut resumed = Tail::open(&api.client, &path, Some("4")).await;
    for seq in 5..=7 {
        assert_eq!(resumed.next(LIVE).await.expect("what was missed").id, seq.to_string());
    }
    api.send(&id, "stop", json!({})).await;
    let last = resumed.next(LIVE).await.expect("the live one");
    assert_eq!((last.id.as_str(), &last.data["to_state"]), ("8", &json!("stopped")));
}

async fn a_tail_of_nobody_is_not_found(mode: Mode) {
    let world = start(mode).await;
    world.api.client.get("/v1/executions/missing/tail").await.problem(404);
}
