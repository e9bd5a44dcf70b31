//! Real answers about people's work match the OpenAPI document.

use serde_json::json;

use crate::bench::{Bench, with_type};
use crate::schema::mismatches;

#[tokio::test]
async fn people_answers_match_openapi() {
    let config = json!({
        "overlap": 2, "schema": {"type": "integer"}, "escalate": {"event": "late"}, "due": "1h", "people": ["ann", "bob"],
        "per_person": {"open": 2, "total": 9}, "rules": [{"if": "answer < 0", "message": "m", "path": "/"}],
    });
    let bench = Bench::office(config, 3).await;
    let document = bench.get("/openapi.json").await.json();
    let lines = with_type("/v1/queues/q/items", "application/x-ndjson", "x\n{\"payload\":1}\n");
    let ann = bench.begun("ann").await;
    let wrong = bench.act(&ann, "submit", json!({"person": "ann", "answer": "x"})).await;
    bench.done(&ann, "submit", json!({"person": "ann", "answer": 1})).await;
    bench.worked("bob", json!(1)).await;
    let bob = bench.begun("bob").await;
    let skipped = bench.done(&bob, "skip", json!({"person": "bob", "reason": "r"})).await;
    for (schema, answer) in [
        ("Queue", bench.get("/v1/queues/q").await.json()),
        ("QueueConfig", bench.get("/v1/queues/q").await.json()["config"].clone()),
        ("EffectiveQueueConfig", bench.get("/v1/queues/q").await.json()["config"].clone()),
        ("QueuePage", bench.get("/v1/queues").await.json()),
        ("Person", bench.put("/v1/people/ann", &json!({"skills": ["a"]})).await.json()),
        ("PersonPage", bench.get("/v1/people").await.json()),
        ("ImportReport", bench.post("/v1/queues/q/items", &json!([{"payload": 1}, 7])).await.json()),
        ("ImportReport", bench.send(lines).await.json()),
        ("Problem", wrong.problem(422, "invalid-answer")),
        ("GivenAssignment", skipped),
        ("GivenAssignment", bench.get(&format!("/v1/assignments/{ann}")).await.json()),
        ("AssignmentFollowed", bench.done(&ann, "correct", json!({"person": "bob"})).await),
        ("GivenAssignmentPage", bench.get("/v1/assignments").await.json()),
        ("NextGiven", bench.next("ann").await),
        ("NextGiven", bench.next("eve").await),
        ("WholeItem", bench.item("i-0").await),
        ("ItemPage", bench.get("/v1/items").await.json()),
        ("ItemLogEntryPage", bench.get("/v1/items/i-0/log").await.json()),
        ("QueueStats", bench.get("/v1/queue_stats?by=both").await.json()),
        ("WholeItem", bench.post("/v1/items/i-2/withdraw", &json!({"reason": "r"})).await.json()),
    ] {
        assert_eq!(mismatches(&document, schema, &answer), Vec::<String>::new(), "{answer:#}");
    }
}
