//! `/v1/definitions`.

use serde_json::json;

use crate::bench::{Bench, ORDER, with_type, yaml};

#[tokio::test]
async fn repeated_definition_returns_same_version() {
    let bench = Bench::open();
    let first = bench.send(yaml("/v1/definitions", ORDER)).await;
    assert_eq!(first.status, 201, "{first:?}");
    let created = first.json();
    assert_eq!((&created["name"], &created["version"]), (&json!("order"), &json!(1)));
    assert_eq!(first.header("location"), "/v1/definitions/order/versions/1");
    let again = bench.send(yaml("/v1/definitions", ORDER)).await;
    assert_eq!((again.status.as_u16(), again.json()), (200, created));
}

#[tokio::test]
async fn changed_definition_is_next_version() {
    let bench = Bench::with_order().await;
    let changed = ORDER.replace("total: 10", "total: 11");
    let second = bench.send(yaml("/v1/definitions", &changed)).await;
    assert_eq!((second.status.as_u16(), &second.json()["version"]), (201, &json!(2)));
    assert_eq!(bench.get("/v1/definitions/order").await.json()["version"], 2);
    let old = bench.get("/v1/definitions/order/versions/1").await.json();
    assert_eq!((&old["version"], &old["definition"]["context"]["total"]), (&json!(1), &json!(10)));
    // Back to the first: equal to an older version and not to the latest, so it is a new version.
    let back = bench.send(yaml("/v1/definitions", ORDER)).await;
    assert_eq!((back.status.as_u16(), &back.json()["version"]), (201, &json!(3)));
}

#[tokio::test]
async fn json_and_yaml_definitions_are_equal() {
    let bench = Bench::with_order().await;
    let source = bench.get("/v1/definitions/order").await.json()["definition"].to_string();
    let again = bench.send(with_type("/v1/definitions", "application/json; charset=utf-8", source)).await;
    assert_eq!((again.status.as_u16(), &again.json()["version"]), (200, &json!(1)));
}

#[tokio::test]
async fn invalid_definition_lists_every_fault() {
    let bench = Bench::open();
    let wrong = "name: order\ninitial: receivd\nstates:\n  received: { on: { pay: { to: payed } } }\n  paid: { final: true }\n";
    let document = bench.send(yaml("/v1/definitions", wrong)).await.problem(422, "invalid");
    let paths: Vec<_> = document["problems"]
        .as_array()
        .unwrap()
        .iter()
        .map(|problem| problem["path"].as_str().unwrap())
        .collect();
    assert!(paths.contains(&"initial") && paths.contains(&"states.received.on.pay.to"), "{document}");
    bench.get("/v1/definitions/order").await.problem(404, "not-found");
}

#[tokio::test]
async fn malformed_definition_body_is_rejected() {
    let bench = Bench::open();
    bench
        .send(with_type("/v1/definitions", "text/plain", ORDER))
        .await
        .problem(415, "unsupported-media-type");
    bench.send(with_type("/v1/definitions", "application/json", "{")).await.problem(400, "bad-request");
    bench.send(with_type("/v1/definitions", "application/yaml", "\u{7}")).await.problem(422, "invalid");
    let huge = "x".repeat(600 * 1024);
    bench.send(with_type("/v1/definitions", "application/yaml", huge)).await.problem(413, "too-large");
}

#[tokio::test]
async fn definitions_are_paged_by_name() {
    let bench = Bench::open();
    for name in ["c", "a", "b"] {
        bench.send(yaml("/v1/definitions", &ORDER.replace("name: order", &format!("name: {name}")))).await;
    }
    let first = bench.get("/v1/definitions?limit=2").await.json();
    let names = |page: &serde_json::Value| {
        page["items"].as_array().unwrap().iter().map(|item| item["name"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&first), ["a", "b"]);
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = bench.get(&format!("/v1/definitions?limit=2&cursor={cursor}")).await.json();
    assert_eq!((names(&second), &second["next_cursor"]), (vec![json!("c")], &json!(null)));
}

#[tokio::test]
async fn unknown_definition_is_404() {
    let bench = Bench::with_order().await;
    for path in ["nothing", "order/versions/2", "order/versions/one", "NOT%20A%20NAME"] {
        bench.get(&format!("/v1/definitions/{path}")).await.problem(404, "not-found");
    }
}

#[tokio::test]
async fn definition_is_compiled_off_runtime() {
    let bench = Bench::open();
    bench.get("/v1/definitions").await;
    // The store of the test answers immediately: a request that compiles nothing is ready at its first poll.
    assert!(futures::poll!(std::pin::pin!(bench.get("/v1/definitions"))).is_ready());
    let mut put = std::pin::pin!(bench.send(yaml("/v1/definitions", ORDER)));
    assert!(futures::poll!(&mut put).is_pending());
    assert_eq!(put.await.status, 201);
}
