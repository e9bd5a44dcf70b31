//! Submitted answers are validated before they count.

use serde_json::{Value, json};

use crate::bench::Bench;

fn strict() -> Value {
    json!({
        "schema": {
            "type": "object",
            "required": ["label"],
            "properties": {"label": {"enum": ["cat", "dog"]}, "score": {"type": "integer", "minimum": 0}},
            "additionalProperties": false,
        },
        "rules": [
            {"if": "answer.label == 'cat' && !has(answer.score)", "message": "a cat needs a score", "path": "/score"},
            {"if": "has(answer.score) && answer.score > item.n + 5", "message": "is too much", "path": "/score"},
        ],
    })
}

async fn problems(bench: &Bench, id: &str, answer: Value) -> Vec<(String, String)> {
    let body = json!({"person": "ann", "answer": answer});
    let problem = bench.act(id, "submit", body).await.problem(422, "invalid-answer");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let problems = problem["problems"].as_array().unwrap().iter();
    let mut problems: Vec<_> = problems.map(|one| (text(&one["path"]), text(&one["message"]))).collect();
    problems.sort();
    problems
}

#[tokio::test]
async fn answer_violating_schema_lists_faults() {
    let bench = Bench::office(strict(), 1).await;
    let id = bench.begun("ann").await;
    let found = problems(&bench, &id, json!({"label": "cow", "score": -1, "more": 1})).await;
    let paths: Vec<&str> = found.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(paths, ["", "/label", "/score"], "{found:?}");
    let open = bench.get(&format!("/v1/assignments/{id}")).await.json();
    assert_eq!(open["status"], "in_progress");
    let done = bench.done(&id, "submit", json!({"person": "ann", "answer": {"label": "dog"}})).await;
    assert_eq!((&done["status"], &done["answer"]), (&json!("completed"), &json!({"label": "dog"})));
}

#[tokio::test]
async fn queue_rules_check_valid_answers() {
    let bench = Bench::office(strict(), 1).await;
    let id = bench.begun("ann").await;
    let found = problems(&bench, &id, json!({"label": "cat"})).await;
    assert_eq!(found, [("/score".to_owned(), "a cat needs a score".to_owned())]);
    let found = problems(&bench, &id, json!({"label": "cat", "score": 6})).await;
    assert_eq!(found, [("/score".to_owned(), "is too much".to_owned())]);
    bench.done(&id, "submit", json!({"person": "ann", "answer": {"label": "cat", "score": 5}})).await;
}

#[tokio::test]
async fn oversized_answer_is_invalid() {
    let bench = Bench::office(json!({}), 1).await;
    let id = bench.begun("ann").await;
    let found = problems(&bench, &id, json!("a".repeat(70_000))).await;
    assert!(found[0].1.contains("64 KiB"), "{found:?}");
}

#[tokio::test]
async fn item_completes_with_required_answers() {
    let bench = Bench::office(json!({"overlap": 2}), 1).await;
    bench.worked("ann", json!({"label": 1})).await;
    assert_eq!(bench.item("i-0").await["status"], "open");
    bench.worked("bob", json!({"label": 1})).await;
    let item = bench.item("i-0").await;
    assert_eq!((&item["status"], &item["agreement"]["agreed"]), (&json!("done"), &json!(true)));
}

#[tokio::test]
async fn new_queue_schema_applies_to_next_answer() {
    let bench = Bench::office(json!({"schema": {"type": "string"}}), 1).await;
    let id = bench.begun("ann").await;
    problems(&bench, &id, json!(1)).await;
    bench.put("/v1/queues/q", &json!({"schema": {"type": "integer"}})).await;
    problems(&bench, &id, json!("a")).await;
    bench.done(&id, "submit", json!({"person": "ann", "answer": 1})).await;
}

#[tokio::test]
async fn expensive_queue_rules_reject_answer() {
    let rule = "answer.all(x, answer.all(y, x == y))";
    let queue = json!({"rules": [{"if": format!("!({rule})"), "message": "all must be the same"}]});
    let bench = Bench::office(queue, 1).await;
    let id = bench.begun("ann").await;
    let found = problems(&bench, &id, json!(vec![1; 2_000])).await;
    assert!(found.iter().any(|(_, message)| message.contains("take too much work")), "{found:?}");
    bench.done(&id, "submit", json!({"person": "ann", "answer": [1, 1]})).await;
}
