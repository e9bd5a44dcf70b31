//! Statistics of queues and people.

use serde_json::json;

use crate::bench::Bench;

#[tokio::test]
async fn queue_stats_group_by_person_and_queue() {
    let bench = Bench::office(json!({}), 4).await;
    bench.worked("ann", json!(1)).await;
    bench.worked("ann", json!(1)).await;
    let id = bench.begun("ann").await;
    bench.done(&id, "skip", json!({"person": "ann"})).await;
    bench.given("bob").await;
    let of = |query: &'static str| {
        let bench = &bench;
        async move { bench.get(&format!("/v1/queue_stats{query}")).await.json()["items"].clone() }
    };
    let queue = of("").await[0].clone();
    assert_eq!((&queue["queue"], &queue["total"], &queue["completed"]), (&json!("q"), &json!(4), &json!(2)));
    assert_eq!(
        (&queue["pending"], &queue["skipped"], &queue["completion_rate"]),
        (&json!(1), &json!(1), &json!(0.5))
    );
    assert_eq!(queue["items"], json!({"open": 2, "done": 2, "failed": 0, "withdrawn": 0, "escalated": 0}));
    let people = of("?by=person").await;
    assert_eq!(people.as_array().unwrap().len(), 2, "{people}");
    assert_eq!((&people[0]["person"], &people[0]["average_attempts"]), (&json!("ann"), &json!(1.0)));
    // Created items are counted for the queue, so a line of a person, or of a few days, has no `open` items.
    assert_eq!(people[0]["items"], json!({"done": 2, "failed": 0, "withdrawn": 0, "escalated": 0}));
    let ann = of("?by=both&person=ann&queue=q").await;
    assert_eq!(
        (&ann[0]["queue"], &ann[0]["person"], &ann[0]["skip_rate"]),
        (&json!("q"), &json!("ann"), &json!(1.0 / 3.0))
    );
    assert_eq!(of("?to=2001-01-01").await, json!([]));
    let since = of("?from=2001-01-01&by=queue").await[0].clone();
    assert_eq!((&since["total"], &since["items"]["open"]), (&json!(4), &json!(null)));
}
