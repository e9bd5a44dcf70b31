//! The document says what the door does: every route, and the shape of real answers.

use std::collections::BTreeSet;

use axum::body::Body;
use axum::http::{Method, Request};
use serde_json::{Value, json};

use crate::bench::{Bench, ORDER, get, yaml};
use crate::schema::mismatches;

/// The contract's table.
const ROUTES: &[(&str, &str)] = &[
    ("post", "/v1/definitions"),
    ("get", "/v1/definitions"),
    ("get", "/v1/definitions/{name}"),
    ("get", "/v1/definitions/{name}/versions/{version}"),
    ("post", "/v1/executions"),
    ("get", "/v1/executions"),
    ("get", "/v1/executions/{execution_id}"),
    ("get", "/v1/executions/{execution_id}/history"),
    ("get", "/v1/executions/{execution_id}/actions"),
    ("get", "/v1/executions/{execution_id}/timers"),
    ("get", "/v1/executions/{execution_id}/tail"),
    ("post", "/v1/executions/{execution_id}/events"),
    ("post", "/v1/executions/{execution_id}/cancel"),
    ("post", "/v1/events"),
    ("get", "/v1/events"),
    ("get", "/v1/events/{event_id}"),
    ("post", "/v1/events/{event_id}/retry"),
    ("get", "/v1/workers"),
    ("get", "/healthz"),
    ("get", "/readyz"),
    ("get", "/metrics"),
    ("get", "/openapi.json"),
];

#[tokio::test]
async fn every_route_is_in_the_document_and_every_documented_route_exists() {
    let bench = Bench::open();
    let document = bench.get("/openapi.json").await.json();
    let mut documented = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            documented.insert((method.clone(), path.clone()));
        }
    }
    let contract = ROUTES.iter().map(|(method, path)| ((*method).to_owned(), (*path).to_owned()));
    assert_eq!(documented, contract.collect());
    for (method, path) in documented {
        let filled = path.replace(['{', '}'], "");
        let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
        let request = Request::builder().method(method.clone()).uri(filled).body(Body::empty()).unwrap();
        let answer = bench.send(request).await;
        let kind =
            serde_json::from_str::<Value>(&answer.text).map(|body| body["type"].clone()).unwrap_or_default();
        assert_ne!(kind, "urn:millstream:problem:no-such-route", "{method} {path}");
        assert_ne!(answer.status, 405, "{method} {path}");
    }
}

#[test]
fn every_schema_that_is_named_exists() {
    fn references(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(map) => {
                if let Some(Value::String(reference)) = map.get("$ref") {
                    found.insert(reference.trim_start_matches("#/components/schemas/").to_owned());
                }
                map.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let document = millstream_ingress::openapi::document();
    let mut named = BTreeSet::new();
    references(&document, &mut named);
    let schemas: BTreeSet<String> =
        document["components"]["schemas"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(named, schemas, "named on the left, present on the right");
}

#[test]
fn operation_ids_are_unique() {
    let document = millstream_ingress::openapi::document();
    let paths = document["paths"].as_object().unwrap().values();
    let ids: Vec<_> = paths
        .flat_map(|methods| methods.as_object().unwrap().values())
        .map(|operation| operation["operationId"].to_string())
        .collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
}

#[tokio::test]
async fn real_answers_have_the_shapes_that_are_documented() {
    let bench = Bench::open();
    let document = bench.get("/openapi.json").await.json();
    let put = bench.send(yaml("/v1/definitions", ORDER)).await.json();
    let body = json!({"definition": "order", "execution_id": "o-1", "events": [{"name": "note"}]});
    let started = bench.post("/v1/executions", &body).await.json();
    let many =
        bench.post("/v1/executions", &json!([{"definition": "order"}, {"definition": "none"}])).await.json();
    let accepted =
        bench.post("/v1/executions/o-1/events", &json!({"name": "pay", "payload": {"amount": 1}})).await;
    let batch = bench.post("/v1/events", &json!([{"execution_id": "o-1", "name": "note"}, 7])).await.json();
    bench.decide("o-1").await;
    let mut answers = vec![
        ("DefinitionVersion", put),
        ("Execution", started),
        ("ExecutionVerdicts", many),
        ("AcceptedEvent", accepted.json()),
        ("EventVerdicts", batch),
        ("Problem", bench.get("/v1/nothing").await.json()),
        ("Problem", bench.post("/v1/executions", &json!({"x": 1})).await.json()),
        ("Event", bench.send(get(accepted.header("location"))).await.json()),
    ];
    for (schema, path) in [
        ("DefinitionWithSource", "/v1/definitions/order"),
        ("DefinitionPage", "/v1/definitions"),
        ("Execution", "/v1/executions/o-1"),
        ("ExecutionPage", "/v1/executions"),
        ("TransitionPage", "/v1/executions/o-1/history"),
        ("TimerPage", "/v1/executions/o-1/timers"),
        ("ActionPage", "/v1/executions/o-1/actions"),
        ("EventPage", "/v1/events"),
        ("WorkerPage", "/v1/workers"),
        ("Health", "/healthz"),
        ("Readiness", "/readyz"),
    ] {
        answers.push((schema, bench.get(path).await.json()));
    }
    for (schema, answer) in answers {
        assert_eq!(mismatches(&document, schema, &answer), Vec::<String>::new(), "{answer:#}");
    }
    // The reader can say no.
    assert!(!mismatches(&document, "Health", &json!({"status": "ok", "version": 1})).is_empty());
}
