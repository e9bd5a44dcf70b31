//! Repeats of requests whose answer was lost.

use serde_json::json;

use crate::bench::Bench;

#[tokio::test]
async fn repeated_next_returns_same_assignment() {
    let bench = Bench::office(json!({}), 2).await;
    let id = bench.given("ann").await;
    let again = bench.next("ann").await;
    assert_eq!(
        (&again["assignment"]["assignment_id"], &again["already_assigned"]),
        (&json!(id), &json!(true))
    );
}

#[tokio::test]
async fn repeated_assignment_act_is_idempotent() {
    let bench = Bench::office(json!({"skip_requires_reason": true}), 2).await;
    let ann = bench.begun("ann").await;
    let started = bench.done(&ann, "start", json!({"person": "ann"})).await;
    assert_eq!(started["attempts"], 1);
    let hand_in = || json!({"person": "ann", "answer": {"b": 1, "a": 2}});
    let first = bench.done(&ann, "submit", hand_in()).await;
    assert_eq!(bench.done(&ann, "submit", hand_in()).await, first);
    let other = bench.act(&ann, "submit", json!({"person": "ann", "answer": 3})).await;
    assert!(other.problem(409, "conflict")["detail"].as_str().unwrap().contains("completed"));
    let bob = bench.begun("bob").await;
    let skip = || json!({"person": "bob", "reason": "unclear"});
    let first = bench.done(&bob, "skip", skip()).await;
    assert_eq!((&first["status"], &first["skip_reason"]), (&json!("skipped"), &json!("unclear")));
    assert_eq!(bench.done(&bob, "skip", skip()).await, first);
}

#[tokio::test]
async fn repeated_item_import_is_idempotent() {
    let bench = Bench::office(json!({}), 3).await;
    let items = json!([{"item_id": "i-0", "payload": {"n": 0}}, {"item_id": "i-1", "payload": {"other": 1}}]);
    let report = bench.post("/v1/queues/q/items", &items).await.json();
    assert_eq!(
        (&report["created"], &report["repeated"], &report["refused_count"]),
        (&json!(0), &json!(1), &json!(1))
    );
    assert_eq!(report["refused"][0]["problems"][0]["path"], "item_id");
    // Without an id the content identifies the item.
    let unnamed = json!({"payload": {"text": "x"}, "priority": 3});
    let first = bench.post("/v1/queues/q/items", &unnamed).await.json();
    let again = bench.post("/v1/queues/q/items", &unnamed).await.json();
    assert_eq!((&first["created"], &again["repeated"]), (&json!(1), &json!(1)));
    assert_eq!(first["item_ids"], again["item_ids"]);
}

#[tokio::test]
async fn repeated_item_withdrawal_is_idempotent() {
    let bench = Bench::office(json!({}), 1).await;
    let first = bench.post("/v1/items/i-0/withdraw", &json!({"reason": "old"})).await.json();
    assert_eq!((&first["status"], &first["reason"]), (&json!("withdrawn"), &json!("old")));
    assert_eq!(bench.post("/v1/items/i-0/withdraw", &json!({})).await.json(), first);
}
