//! `POST /v1/events` with many events: one verdict each, in order.

use serde_json::{Value, json};

use crate::bench::{Bench, header, post, with_type};

async fn two_orders() -> Bench {
    let bench = Bench::with_order().await;
    bench.start("o-1").await;
    bench.start("o-2").await;
    bench
}

fn mixed() -> Vec<Value> {
    vec![
        json!({"execution_id": "o-1", "name": "pay", "payload": {"amount": 1}}),
        json!({"execution_id": "none", "name": "pay"}),
        json!({"execution_id": "o-2", "name": "pya"}),
        json!({"execution_id": "o-2", "name": "note", "idempotency_key": "k"}),
        json!({"execution_id": "o-2", "name": "note", "idempotency_key": "k"}),
        json!({"execution_id": "o-2", "name": "note", "payload": 1, "idempotency_key": "k"}),
        json!({"execution_id": "o-2", "nmae": "note"}),
        json!({"execution_id": "o-2", "name": "millstream.start"}),
        json!({"execution_id": "o-2", "name": "note", "payload": "x".repeat(256 * 1024)}),
        json!(7),
        json!({"execution_id": "o-2", "name": "note"}),
    ]
}

fn check_mixed(items: &Value) {
    let status = |at: usize| items[at]["problem"]["status"].as_u64();
    let statuses: Vec<_> = (0..11).map(status).collect();
    let wanted =
        [None, Some(404), Some(422), None, None, Some(422), Some(422), Some(422), Some(413), Some(422), None];
    assert_eq!(statuses, wanted, "{items:#}");
    assert_eq!(items[3]["event_id"], items[4]["event_id"]);
    assert_eq!(items[5]["problem"]["type"], "urn:millstream:problem:idempotency-key-reused");
    assert_eq!(items[6]["problem"]["problems"][0]["path"], "items[6].name");
    assert_eq!(items[6]["problem"]["problems"][1]["path"], "items[6].nmae");
    assert_eq!(items[0]["status"], "pending");
}

#[tokio::test]
async fn array_batch_has_ordered_verdicts() {
    let bench = two_orders().await;
    let answer = bench.post("/v1/events", &Value::Array(mixed())).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    check_mixed(&answer.json()["items"]);
    let accepted = bench.get("/v1/events?status=pending").await.json();
    let names: Vec<_> =
        accepted["items"].as_array().unwrap().iter().map(|event| event["execution_id"].clone()).collect();
    assert_eq!(names, ["o-1", "o-2", "o-2"]);
}

#[tokio::test]
async fn ndjson_batch_is_read_by_line() {
    let bench = two_orders().await;
    let lines: Vec<_> = mixed().iter().map(ToString::to_string).collect();
    let body = format!("{}\r\n\n", lines.join("\n"));
    let answer = bench.send(with_type("/v1/events", "application/x-ndjson", body)).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    check_mixed(&answer.json()["items"]);
}

#[tokio::test]
async fn malformed_ndjson_line_fails_alone() {
    let bench = two_orders().await;
    let good = json!({"execution_id": "o-1", "name": "note"}).to_string();
    let lines = format!("{good}\n{{\"execution_id\":\n{good}");
    let items =
        bench.send(with_type("/v1/events", "application/x-ndjson", lines)).await.json()["items"].clone();
    assert!(items[0]["event_id"].is_string() && items[2]["event_id"].is_string(), "{items}");
    assert_eq!(items[1]["problem"]["status"], 422);
    let broken = format!("[{good},");
    bench.send(with_type("/v1/events", "application/json", broken)).await.problem(400, "bad-request");
    bench.send(with_type("/v1/events", "application/json", good)).await.problem(400, "bad-request");
    assert_eq!(bench.get("/v1/events?status=pending").await.json()["items"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn batch_items_and_bytes_are_limited() {
    let bench = two_orders().await;
    let item = json!({"execution_id": "o-1", "name": "note"});
    let full = bench.post("/v1/events", &Value::Array(vec![item.clone(); 1_000])).await;
    assert_eq!((full.status.as_u16(), full.json()["items"].as_array().unwrap().len()), (202, 1_000));
    bench.post("/v1/events", &Value::Array(vec![item.clone(); 1_001])).await.problem(413, "too-large");
    let lines = format!("{item}\n").repeat(1_001);
    bench.send(with_type("/v1/events", "application/x-ndjson", lines)).await.problem(413, "too-large");
    let spaces = format!("[{}]", " ".repeat(8 * 1024 * 1024));
    bench.send(with_type("/v1/events", "application/json", spaces)).await.problem(413, "too-large");
    assert_eq!(bench.post("/v1/events", &json!([])).await.json(), json!({"items": []}));
}

#[tokio::test]
async fn batch_idempotency_header_is_rejected() {
    let bench = two_orders().await;
    let request = header(post("/v1/events", &json!([])), "idempotency-key", "k");
    bench.send(request).await.problem(400, "bad-request");
}

#[tokio::test]
async fn batch_events_keep_their_order() {
    let bench = two_orders().await;
    let items: Vec<_> =
        (0..200).map(|n| json!({"execution_id": "o-1", "name": "note", "payload": n})).collect();
    bench.post("/v1/events", &Value::Array(items)).await;
    let listed = bench.get("/v1/events?execution_id=o-1&status=pending&limit=500").await.json();
    let payloads: Vec<_> =
        listed["items"].as_array().unwrap().iter().map(|event| event["payload"].as_u64().unwrap()).collect();
    assert_eq!(payloads, (0..200).collect::<Vec<_>>());
}
