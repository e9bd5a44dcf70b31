//! `POST /v1/graphs/{graph_id}/cancel`.

use serde_json::json;

use crate::bench::{header, post};
use crate::create::with_chain;

const CANCEL: &str = "/v1/graphs/g-1/cancel";

#[tokio::test]
async fn graph_stays_cancelled_with_reason() {
    let (bench, engine) = with_chain("g-1").await;
    let body = json!({"reason": "obsolete"});
    let answer = engine.while_deciding("g-1", bench.post(CANCEL, &body)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let graph = answer.json();
    assert_eq!((&graph["status"], &graph["reason"]), (&json!("CANCELLED"), &json!("obsolete")));
    let again = bench.post(CANCEL, &body).await;
    assert_eq!((again.status, again.json()), (answer.status, graph));
    bench.post("/v1/graphs/none/cancel", &body).await.problem(404, "not-found");
}

#[tokio::test]
async fn graph_cancel_without_wait_is_202() {
    let (bench, _) = with_chain("g-1").await;
    let answer = bench.send(header(post(CANCEL, &json!({})), "prefer", "respond-async")).await;
    assert_eq!((answer.status.as_u16(), answer.json()["status"].clone()), (202, json!("RUNNING")));
}
