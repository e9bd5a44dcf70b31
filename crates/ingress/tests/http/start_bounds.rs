//! Bounds on the evaluation cost of the starts of one request, and the checks that precede their decision.

use millstream_ingress::IngressLimits;
use millstream_model::quota::QuotaName;
use serde_json::{Value, json};

use crate::bench::{Bench, post, yaml};
use crate::quotas::{at_most, of, order, refused, two_tenants};

const DEAR: &str = r#"
name: dear
initial: a
correlate: "context.l.all(a, context.l.all(b, a == b)) ? context.id : 'other'"
states: { a: { on: { e: {} } } }
"#;

fn dear(at: usize) -> Value {
    let list = vec![1; 400];
    json!({"definition": "dear", "execution_id": format!("d-{at}"), "input": {"l": list, "id": format!("d-{at}")}})
}

#[tokio::test]
async fn expensive_starts_stay_undecided() {
    let bench = Bench::open();
    assert!(bench.send(yaml("/v1/definitions", DEAR)).await.status.is_success());
    let starts: Vec<Value> = (0..30).map(dear).collect();
    let answer = bench.post("/v1/executions", &json!(starts)).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let items = answer.json()["items"].as_array().unwrap().clone();
    let begun = items.iter().take_while(|item| item["execution_id"].is_string()).count();
    assert!((1..30).contains(&begun), "{begun} were decided");
    for item in &items[begun..] {
        assert_eq!(item["problem"]["type"], "urn:millstream:problem:busy", "{item}");
    }
    let alone = bench.post("/v1/executions", &starts[29]).await;
    assert_eq!(alone.status, 201, "an undecided start is valid: {alone:?}");
}

#[tokio::test]
async fn start_over_quota_is_not_evaluated() {
    let bench = two_tenants(IngressLimits::default(), at_most(&[(QuotaName::OpenExecutions, 1)])).await;
    assert_eq!(order(&bench, "noisy", "o-1").await.status, 201);
    // A decision would reject the input.
    let start = json!({"definition": "order", "execution_id": "o-2", "input": 7});
    let answer = bench.send(of("noisy", post("/v1/executions", &start))).await;
    refused(&answer, 403, "quota-exceeded", "open_executions");
    assert_eq!(bench.send(of("quiet", yaml("/v1/definitions", crate::bench::ORDER))).await.status, 201);
    bench.send(of("quiet", post("/v1/executions", &start))).await.problem(422, "invalid");
}

#[tokio::test]
async fn start_array_is_admitted_up_to_quota() {
    let bench = two_tenants(IngressLimits::default(), at_most(&[(QuotaName::OpenExecutions, 3)])).await;
    assert_eq!(order(&bench, "noisy", "o-1").await.status, 201);
    let ids = ["o-2", "o-1", "o-3", "o-4", "o-1"];
    let starts: Vec<Value> =
        ids.iter().map(|id| json!({"definition": "order", "execution_id": id})).collect();
    let answer = bench.send(of("noisy", post("/v1/executions", &json!(starts)))).await.json();
    let kinds: Vec<&Value> =
        answer["items"].as_array().unwrap().iter().map(|item| &item["problem"]["type"]).collect();
    let exceeded = json!("urn:millstream:problem:quota-exceeded");
    assert_eq!(kinds, [&json!(null), &json!(null), &json!(null), &exceeded, &json!(null)], "{answer}");
}
