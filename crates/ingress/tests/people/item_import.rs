//! Items are imported as lines (NDJSON), without a limit on their number.

use axum::body::Body;
use serde_json::{Value, json};

use crate::bench::{Answer, Bench, header, with_type};

fn lines(answer: &Answer) -> Vec<Value> {
    answer.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn rejected_import_line_is_named() {
    let bench = Bench::office(json!({"overlap": 2}), 0).await;
    let body = "{\"item_id\":\"a\",\"payload\":1}\n\n{\"item_id\":\"b\"}\nnonsense\n{\"item_id\":\"a\",\"payload\":1}\n\
                {\"item_id\":\"c\",\"payload\":1,\"overlap\":99}\n{\"item_id\":\"d\",\"payload\":{}}";
    let answer = bench.send(with_type("/v1/queues/q/items", "application/x-ndjson", body)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let report = answer.json();
    assert_eq!((&report["read"], &report["created"], &report["repeated"]), (&json!(6), &json!(2), &json!(1)));
    let refused: Vec<_> = report["refused"].as_array().unwrap().iter().collect();
    let numbers: Vec<u64> = refused.iter().map(|one| one["line"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [2, 3, 5], "{report}");
    assert_eq!(refused[0]["item_id"], "b");
    assert_eq!(refused[2]["problems"][0]["path"], "overlap");
}

#[tokio::test]
async fn item_import_streams_progress() {
    let bench = Bench::office(json!({}), 0).await;
    let chunks = (0..2_600).map(|n| {
        // Cut inside a line.
        let line = format!("\"payload\": {{\"n\": {n}}}}}\n{{");
        Ok::<_, std::io::Error>(if n == 0 { format!("{{{line}") } else { line })
    });
    let chunks: Vec<_> = chunks.chain([Ok("\"payload\": \"last\"}".to_owned())]).collect();
    let body = Body::from_stream(futures::stream::iter(chunks));
    let request = with_type("/v1/queues/q/items", "application/x-ndjson", body);
    let answer = bench.send(header(request, "accept", "application/x-ndjson")).await;
    assert_eq!(answer.header("content-type"), "application/x-ndjson");
    let told = lines(&answer);
    assert!(told.len() >= 5, "{told:?}");
    let read: Vec<u64> = told.iter().map(|line| line["read"].as_u64().unwrap()).collect();
    assert!(read.is_sorted());
    let last = told.last().unwrap();
    assert_eq!(
        *last,
        json!({"done": true, "read": 2601, "created": 2601, "repeated": 0, "refused": 0, "refusals": []})
    );
}

#[tokio::test]
async fn interrupted_import_keeps_committed_items() {
    let bench = Bench::office(json!({}), 0).await;
    let good = (0..600).map(|n| Ok(format!("{{\"payload\": {n}}}\n")));
    let chunks: Vec<Result<String, std::io::Error>> =
        good.chain([Err(std::io::Error::other("gone"))]).collect();
    let body = Body::from_stream(futures::stream::iter(chunks));
    let request = with_type("/v1/queues/q/items", "application/x-ndjson", body);
    let told = lines(&bench.send(header(request, "accept", "application/x-ndjson")).await);
    let last = told.last().unwrap();
    assert_eq!((&last["done"], &last["created"]), (&json!(false), &json!(500)), "{last}");
    assert_eq!(last["problem"]["status"], 400);
}

#[tokio::test]
async fn oversized_import_line_fails_alone() {
    let bench = Bench::office(json!({}), 0).await;
    let body = format!("{{\"payload\":\"{}\"}}\n{{\"payload\":1}}\n", "a".repeat(300_000));
    let report = bench.send(with_type("/v1/queues/q/items", "application/x-ndjson", body)).await.json();
    assert_eq!((&report["created"], &report["refused"][0]["line"]), (&json!(1), &json!(1)), "{report}");
}

#[tokio::test]
async fn listed_import_refusals_are_limited() {
    let bench = Bench::office(json!({}), 0).await;
    let body = "x\n".repeat(1_500);
    let report = bench.send(with_type("/v1/queues/q/items", "application/x-ndjson", body)).await.json();
    assert_eq!(report["refused_count"], 1_500);
    assert_eq!(report["refused"].as_array().unwrap().len(), 1_000);
}

#[tokio::test]
async fn import_rejects_other_media_types() {
    let bench = Bench::office(json!({}), 0).await;
    let answer = bench.send(with_type("/v1/queues/q/items", "text/csv", "a,b")).await;
    answer.problem(415, "unsupported-media-type");
}
