//! Malicious bodies and URIs.

use serde_json::{Value, json};

use crate::bench::{Bench, get, header, open_options, post, with_type};

#[tokio::test]
async fn json_depth_is_limited() {
    let bench = Bench::with_order().await;
    bench.start("o-1").await;
    let nested = |depth: usize| {
        let body = format!("{{\"name\":\"note\",\"payload\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
        with_type("/v1/executions/o-1/events", "application/json", body)
    };
    assert_eq!(bench.send(nested(64)).await.status, 202);
    bench.send(nested(65)).await.problem(422, "invalid");
    bench.send(nested(100_000)).await.problem(422, "invalid");
    let deep = "[".repeat(200_000);
    bench
        .send(with_type("/v1/executions/o-1/events", "application/json", deep.clone()))
        .await
        .problem(400, "bad-request");
    bench.send(with_type("/v1/events", "application/json", deep.clone())).await.problem(400, "bad-request");
    bench.send(with_type("/v1/definitions", "application/json", deep)).await.problem(400, "bad-request");
}

#[tokio::test]
async fn batch_item_limit_applies_while_reading() {
    let bench = Bench::with_order().await;
    let body = format!("[{}1]", "1,".repeat(2_000_000));
    bench.send(with_type("/v1/events", "application/json", body)).await.problem(413, "too-large");
    let fields: Vec<String> = (0..100_000).map(|n| format!("\"f{n}\":{n}")).collect();
    let body = format!("{{{}}}", fields.join(","));
    bench.send(with_type("/v1/executions", "application/json", body)).await.problem(422, "invalid");
}

#[tokio::test]
async fn non_utf8_body_is_400() {
    let bench = Bench::with_order().await;
    bench.start("o-1").await;
    let bytes = vec![b'{', b'"', 0xff, 0xfe, b'"', b':', b'1', b'}'];
    for media in ["application/json", "application/x-ndjson"] {
        bench.send(with_type("/v1/events", media, bytes.clone())).await.problem(400, "bad-request");
    }
    bench.send(with_type("/v1/definitions", "application/yaml", bytes)).await.problem(400, "bad-request");
}

#[tokio::test]
async fn idempotency_key_rejects_control_characters() {
    let bench = Bench::with_order().await;
    bench.start("o-1").await;
    let items = json!([{"execution_id": "o-1", "name": "note", "idempotency_key": "a\u{0}b"}]);
    let verdicts = bench.post("/v1/events", &items).await.json();
    assert_eq!(verdicts["items"][0]["problem"]["problems"][0]["path"], "items[0].idempotency_key");
}

#[tokio::test]
async fn duplicate_json_field_is_rejected() {
    let bench = Bench::with_order().await;
    bench.start("o-1").await;
    let body = r#"{"name":"note","name":"pay"}"#;
    let document = bench
        .send(with_type("/v1/executions/o-1/events", "application/json", body))
        .await
        .problem(422, "invalid");
    assert_eq!(document["problems"], json!([{"path": "name", "message": "is a duplicate field"}]));
}

#[tokio::test]
async fn oversized_uri_and_headers_are_problems() {
    let bench = Bench::open();
    bench.get(&format!("/v1/events?execution_id={}", "x".repeat(9_000))).await.problem(414, "uri-too-long");
    bench
        .send(header(get("/v1/workers"), "x-large", &"x".repeat(17_000)))
        .await
        .problem(431, "headers-too-large");
}

#[tokio::test]
async fn body_bytes_in_flight_are_limited() {
    let mut options = open_options();
    options.limits.body_bytes_in_flight = 64 * 1024;
    let bench = Bench::with(options, |stores, streams| (stores, streams));
    bench.put_order().await;
    bench.start("o-1").await;
    let of = |bytes: usize| {
        post("/v1/executions/o-1/events", &json!({"name": "note", "payload": "x".repeat(bytes)}))
    };
    let refused = bench.send(of(100 * 1024)).await;
    refused.problem(429, "busy");
    assert_eq!(refused.header("retry-after"), "1");
    // The charged bytes are refunded: the same amount fits again.
    for _ in 0..10 {
        assert_eq!(bench.send(of(40 * 1024)).await.status, 202);
    }
}

#[tokio::test]
async fn random_bodies_always_get_answer() {
    let bench = Bench::with_order().await;
    bench.start("o-1").await;
    let pieces = [
        "{",
        "}",
        "[",
        "]",
        "\"name\"",
        ":",
        ",",
        "\"pay\"",
        "null",
        "1e999",
        "\"\\ud800\"",
        "-",
        "\\",
        " ",
        "é",
    ];
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    for round in 0..2_000 {
        let mut body = String::new();
        for _ in 0..(round % 12) {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            body.push_str(pieces[(seed >> 33) as usize % pieces.len()]);
        }
        for path in ["/v1/executions", "/v1/events", "/v1/executions/o-1/events", "/v1/definitions"] {
            let answer = bench.send(with_type(path, "application/json", body.clone())).await;
            let known = matches!(answer.status.as_u16(), 200 | 201 | 202 | 400 | 404 | 422);
            assert!(known, "round {round} {path} {body:?}: {answer:?}");
            let _: Value = answer.json();
        }
    }
}
