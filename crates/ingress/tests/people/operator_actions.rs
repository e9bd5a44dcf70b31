//! Operators revoke and reassign work, and request corrections.

use serde_json::json;

use crate::bench::Bench;

#[tokio::test]
async fn operator_reassigns_open_assignment() {
    let bench = Bench::office(json!({}), 1).await;
    let id = bench.begun("ann").await;
    let taken = bench.done(&id, "reassign", json!({"to": "bob"})).await;
    assert_eq!((&taken["status"], &taken["next"]["person"]), (&json!("expired"), &json!("bob")));
    let late = bench.act(&id, "submit", json!({"person": "ann", "answer": 1})).await.problem(409, "conflict");
    assert!(late["detail"].as_str().unwrap().contains("expired"));
    assert_eq!(bench.next("bob").await["assignment"]["assignment_id"], taken["next"]["assignment_id"]);
    assert_eq!(bench.next("ann").await["idle"], "nothing_open");
}

#[tokio::test]
async fn operator_reassigns_skipped_assignment() {
    let bench = Bench::office(json!({"reassign_skipped": false}), 1).await;
    let id = bench.begun("ann").await;
    bench.done(&id, "skip", json!({"person": "ann"})).await;
    assert_eq!(bench.next("bob").await["idle"], "nothing_open");
    let given_on = bench.done(&id, "reassign", json!({})).await;
    assert_eq!(given_on["next"], json!(null));
    bench.given("bob").await;
    bench.act(&id, "reassign", json!({})).await.problem(409, "conflict");
}

#[tokio::test]
async fn correction_keeps_completed_assignment() {
    let bench = Bench::office(json!({}), 1).await;
    let id = bench.worked("ann", json!("wrong")).await;
    let followed = bench.done(&id, "correct", json!({})).await;
    let next = followed["next"]["assignment_id"].as_str().unwrap().to_owned();
    assert_eq!((&followed["next"]["refers_to"], &followed["next"]["person"]), (&json!(id), &json!("ann")));
    bench.act(&id, "correct", json!({})).await.problem(409, "conflict");
    bench.done(&next, "start", json!({"person": "ann"})).await;
    bench.done(&next, "submit", json!({"person": "ann", "answer": "right"})).await;
    assert_eq!(bench.get(&format!("/v1/assignments/{id}")).await.json()["answer"], "wrong");
    assert_eq!(bench.item("i-0").await["agreement"]["value"], "right");
}

#[tokio::test]
async fn assignment_heartbeat_renews_deadline() {
    let bench = Bench::office(json!({}), 1).await;
    let id = bench.begun("ann").await;
    let beat = bench.done(&id, "heartbeat", json!({"person": "ann"})).await;
    assert!(beat["deadline"].is_string() && beat["heartbeat_at"].is_string(), "{beat}");
}

#[tokio::test]
async fn submit_to_withdrawn_item_is_rejected() {
    let bench = Bench::office(json!({}), 1).await;
    let id = bench.begun("ann").await;
    bench.post("/v1/items/i-0/withdraw", &json!({"reason": "not needed"})).await;
    let late = bench.act(&id, "submit", json!({"person": "ann", "answer": 1})).await.problem(409, "conflict");
    assert!(late["detail"].as_str().unwrap().contains("expired"), "{late}");
    bench.worked_nothing("ann").await;
}

impl Bench {
    async fn worked_nothing(&self, person: &str) {
        assert_eq!(self.next(person).await["idle"], "nothing_open");
    }
}
