//! People request their next assignment.

use futures::future::join_all;
use serde_json::json;

use crate::bench::Bench;

#[tokio::test]
async fn assignment_is_exclusive() {
    let bench = Bench::office(json!({}), 20).await;
    let people: Vec<String> = (0..24).map(|n| format!("p-{n}")).collect();
    let given = join_all(people.iter().map(|person| bench.next(person))).await;
    let mut items: Vec<String> =
        given.iter().filter_map(|one| Some(one["item"]["item_id"].as_str()?.to_owned())).collect();
    assert_eq!(items.len(), 20);
    items.sort();
    items.dedup();
    assert_eq!(items.len(), 20);
    let idle = given.iter().filter(|one| one["idle"] == "nothing_open").count();
    assert_eq!(idle, 4);
}

#[tokio::test]
async fn assignment_carries_item_payload() {
    let bench = Bench::office(json!({"timeout_seconds": 60}), 1).await;
    let given = bench.next("ann").await;
    assert_eq!(given["payload"], json!({"n": 0}));
    assert_eq!((&given["item"]["item_id"], &given["already_assigned"]), (&json!("i-0"), &json!(false)));
    assert_eq!(given["assignment"]["status"], "pending");
    let id = given["assignment"]["assignment_id"].as_str().unwrap();
    let started = bench.done(id, "start", json!({"person": "ann"})).await;
    assert_eq!((&started["status"], &started["attempts"]), (&json!("in_progress"), &json!(1)));
    assert!(started["deadline"].is_string());
}

#[tokio::test]
async fn next_assignment_may_start_immediately() {
    let bench = Bench::office(json!({}), 2).await;
    let ask = json!({"person": "ann", "queues": ["q"], "start": true});
    let given = bench.post("/v1/assignments/next", &ask).await.json();
    assert_eq!(given["assignment"]["status"], "in_progress");
    // The answer was lost: the same assignment is returned again.
    let again = bench.post("/v1/assignments/next", &ask).await.json();
    assert_eq!(again["assignment"]["assignment_id"], given["assignment"]["assignment_id"]);
    assert_eq!(again["already_assigned"], true);
    let none = json!({"person": "ann", "queues": ["other"], "start": true});
    assert_eq!(bench.post("/v1/assignments/next", &none).await.json()["idle"], "no_queue");
}

#[tokio::test]
async fn idle_answer_has_reason() {
    let bench = Bench::office(json!({"people": ["ann"], "per_person": {"open": 1, "total": 1}}), 2).await;
    assert_eq!(bench.next("bob").await["idle"], "not_eligible");
    let id = bench.begun("ann").await;
    assert_eq!(bench.next("ann").await["idle"], "total_limit");
    bench.done(&id, "skip", json!({"person": "ann"})).await;
    let given = bench.next("ann").await;
    assert_eq!(given["item"]["item_id"], "i-1", "a skipped item is not assigned again: {given}");
}
