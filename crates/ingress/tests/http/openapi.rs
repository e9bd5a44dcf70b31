//! The OpenAPI document matches the ingress: every route, and the shape of real answers.

use std::collections::BTreeSet;

use axum::body::Body;
use axum::http::{Method, Request};
use serde_json::{Value, json};

use crate::bench::{Bench, ORDER, get, yaml};
use crate::failed_actions::decision;
use crate::schema::mismatches;

/// The route table of the contract.
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
    ("post", "/v1/signals"),
    ("get", "/v1/signals/{signal_id}"),
    ("get", "/v1/incidents"),
    ("get", "/v1/incidents/groups"),
    ("get", "/v1/incidents/{incident_id}"),
    ("post", "/v1/incidents/{incident_id}/retry"),
    ("post", "/v1/incidents/{incident_id}/skip"),
    ("post", "/v1/incidents/{incident_id}/fail"),
    ("post", "/v1/incidents/{incident_id}/cancel"),
    ("post", "/v1/incidents/groups/{fingerprint}/retry"),
    ("post", "/v1/incidents/groups/{fingerprint}/fail"),
    ("post", "/v1/incidents/groups/{fingerprint}/cancel"),
    ("get", "/v1/workers"),
    ("post", "/v1/tasks/lease"),
    ("post", "/v1/tasks/complete"),
    ("post", "/v1/tasks/{key}/heartbeat"),
    ("post", "/v1/tasks/{key}/complete"),
    ("post", "/v1/tasks/{key}/fail"),
    ("get", "/v1/tasks/{key}/why"),
    ("post", "/v1/graphs"),
    ("get", "/v1/graphs"),
    ("get", "/v1/graphs/{graph_id}"),
    ("get", "/v1/graphs/{graph_id}/nodes"),
    ("get", "/v1/graphs/{graph_id}/nodes/{node}"),
    ("get", "/v1/graphs/{graph_id}/nodes/{node}/logs"),
    ("post", "/v1/graphs/{graph_id}/nodes/{node}/result"),
    ("post", "/v1/graphs/{graph_id}/nodes/{node}/progress"),
    ("post", "/v1/graphs/{graph_id}/edits"),
    ("post", "/v1/graphs/{graph_id}/cancel"),
    ("get", "/v1/graphs/{graph_id}/watch"),
    ("post", "/v1/executors"),
    ("get", "/v1/executors"),
    ("post", "/v1/executors/{name}/retire"),
    ("put", "/v1/devices/{device_id}"),
    ("get", "/v1/devices"),
    ("get", "/v1/devices/{device_id}"),
    ("delete", "/v1/devices/{device_id}"),
    ("post", "/v1/devices/{device_id}/heartbeat"),
    ("get", "/v1/devices/{device_id}/assignments"),
    ("get", "/v1/devices/{device_id}/assignments/stream"),
    ("post", "/v1/devices/{device_id}/pause"),
    ("post", "/v1/devices/{device_id}/resume"),
    ("post", "/v1/runs"),
    ("get", "/v1/runs"),
    ("get", "/v1/runs/{run_id}"),
    ("get", "/v1/runs/{run_id}/log"),
    ("get", "/v1/runs/{run_id}/why"),
    ("post", "/v1/runs/{run_id}/accept"),
    ("post", "/v1/runs/{run_id}/decline"),
    ("post", "/v1/runs/{run_id}/start"),
    ("post", "/v1/runs/{run_id}/progress"),
    ("post", "/v1/runs/{run_id}/complete"),
    ("post", "/v1/runs/{run_id}/fail"),
    ("post", "/v1/runs/{run_id}/release"),
    ("post", "/v1/runs/{run_id}/abort"),
    ("post", "/v1/runs/{run_id}/claim"),
    ("post", "/v1/runs/{run_id}/offline_claim"),
    ("post", "/v1/runs/{run_id}/pause"),
    ("post", "/v1/runs/{run_id}/resume"),
    ("post", "/v1/runs/{run_id}/retry"),
    ("post", "/v1/runs/{run_id}/cancel"),
    ("post", "/v1/runs/{run_id}/assign"),
    ("put", "/v1/queues/{queue}"),
    ("get", "/v1/queues"),
    ("get", "/v1/queues/{queue}"),
    ("post", "/v1/queues/{queue}/pause"),
    ("post", "/v1/queues/{queue}/resume"),
    ("post", "/v1/queues/{queue}/items"),
    ("get", "/v1/queue_stats"),
    ("put", "/v1/people/{person}"),
    ("get", "/v1/people"),
    ("get", "/v1/people/{person}"),
    ("post", "/v1/people/{person}/pause"),
    ("post", "/v1/people/{person}/resume"),
    ("get", "/v1/items"),
    ("get", "/v1/items/{item_id}"),
    ("get", "/v1/items/{item_id}/log"),
    ("post", "/v1/items/{item_id}/withdraw"),
    ("post", "/v1/assignments/next"),
    ("post", "/v1/assignments/{assignment_id}/start"),
    ("post", "/v1/assignments/{assignment_id}/submit"),
    ("post", "/v1/assignments/{assignment_id}/skip"),
    ("post", "/v1/assignments/{assignment_id}/heartbeat"),
    ("post", "/v1/assignments/{assignment_id}/reassign"),
    ("post", "/v1/assignments/{assignment_id}/correct"),
    ("get", "/v1/assignments"),
    ("get", "/v1/assignments/{assignment_id}"),
    ("get", "/healthz"),
    ("get", "/readyz"),
    ("get", "/v1/tenants/{tenant}/quota"),
    ("put", "/v1/tenants/{tenant}/quota"),
    ("get", "/v1/tenants/{tenant}/usage"),
    ("get", "/v1/keys"),
    ("post", "/v1/keys"),
    ("post", "/v1/keys/{key_id}/rotate"),
    ("delete", "/v1/keys/{key_id}"),
    ("get", "/metrics"),
    ("get", "/openapi.json"),
];

/// Path and operation.
fn operations(document: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let paths = document["paths"].as_object().unwrap().iter();
    paths.flat_map(|(path, methods)| methods.as_object().unwrap().values().map(move |of| (path.as_str(), of)))
}

#[tokio::test]
async fn openapi_lists_exactly_the_routes() {
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
fn openapi_schema_references_resolve() {
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
fn openapi_operation_ids_are_unique() {
    let document = millstream_ingress::openapi::document();
    let ids: Vec<_> =
        operations(&document).map(|(_, operation)| operation["operationId"].to_string()).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
}

#[test]
fn openapi_operations_have_tag_summary_and_description() {
    let document = millstream_ingress::openapi::document();
    let tags = document["tags"].as_array().unwrap().iter();
    let described: BTreeSet<_> = tags
        .filter(|tag| !tag["description"].as_str().unwrap().is_empty())
        .map(|tag| tag["name"].as_str().unwrap())
        .collect();
    let mut used = BTreeSet::new();
    for (path, operation) in operations(&document) {
        for text in ["operationId", "summary", "description"] {
            assert!(!operation[text].as_str().unwrap_or_default().is_empty(), "{path}: no {text}");
        }
        let tag = operation["tags"].as_array().unwrap();
        assert_eq!(tag.len(), 1, "{path}: {tag:?}");
        used.insert(tag[0].as_str().unwrap());
        // Empty for an operation that needs no key.
        assert!(operation["security"].is_array(), "{path}: no security");
    }
    assert_eq!(used, described, "used on the left, described on the right");
}

#[test]
fn openapi_schemas_avoid_forms_that_generators_drop() {
    fn find_forms(schema: &Value, place: &str, found: &mut Vec<String>) {
        match schema {
            Value::Object(keywords) => {
                let kinds = keywords.get("type").and_then(Value::as_array).into_iter().flatten();
                if kinds.filter(|kind| *kind != "null").count() > 1 {
                    found.push(format!("{place}: several types"));
                }
                for (name, property) in
                    keywords.get("properties").and_then(Value::as_object).into_iter().flatten()
                {
                    if property["type"] == "null" {
                        found.push(format!("{place}/{name}: null alone"));
                    }
                }
                keywords.iter().for_each(|(key, value)| find_forms(value, &format!("{place}/{key}"), found));
            }
            Value::Array(items) => items.iter().for_each(|item| find_forms(item, place, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut found = Vec::new();
    find_forms(&millstream_ingress::openapi::document()["components"]["schemas"], "", &mut found);
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn openapi_names_licence_and_server() {
    let document = millstream_ingress::openapi::document();
    assert_eq!(document["info"]["license"]["identifier"], "Apache-2.0 OR MIT");
    assert_eq!(document["servers"][0]["url"], "/");
}

#[test]
fn openapi_links_match_operations() {
    let document = millstream_ingress::openapi::document();
    let mut links = 0;
    for (_, operation) in operations(&document) {
        for answer in operation["responses"].as_object().unwrap().values() {
            for link in answer["links"].as_object().into_iter().flat_map(|links| links.values()) {
                let (path, _) = operations(&document)
                    .find(|(_, target)| target["operationId"] == link["operationId"])
                    .unwrap();
                let given: BTreeSet<_> = link["parameters"]
                    .as_object()
                    .unwrap()
                    .keys()
                    .map(|name| format!("{{{name}}}"))
                    .collect();
                let wanted: BTreeSet<_> =
                    path.split('/').filter(|part| part.starts_with('{')).map(str::to_owned).collect();
                assert_eq!(given, wanted, "{link}");
                links += 1;
            }
        }
    }
    assert!(links > 10, "{links} links");
}

/// The gate and the body reader answer before any handler: each call documents their problems.
#[tokio::test]
async fn openapi_documents_common_problems() {
    let bench = Bench::with_order().await;
    bench.start("o-1").await;
    let document = bench.get("/openapi.json").await.json();
    let documented = |path: &str, method: &str, answer: &crate::bench::Answer| {
        let status = answer.status.as_u16().to_string();
        let operation = &document["paths"][path][method];
        assert!(operation["responses"][&status].is_object(), "{method} {path}: {status} is not documented");
        status
    };
    let mut seen = BTreeSet::new();
    for (method, path) in ROUTES {
        let filled = path.replace("{execution_id}", "o-1").replace(['{', '}'], "");
        let method_name = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
        let request = || Request::builder().method(method_name.clone());
        let long = format!("{filled}?x={}", "x".repeat(9_000));
        let mut answers = vec![
            bench.send(request().uri(long).body(Body::empty()).unwrap()).await,
            bench
                .send(
                    request().uri(&filled).header("x-large", "x".repeat(17_000)).body(Body::empty()).unwrap(),
                )
                .await,
        ];
        if document["paths"][*path][*method]["requestBody"].is_object() {
            let typed = |media: &str| request().uri(&filled).header("content-type", media);
            answers.push(bench.send(typed("text/csv").body(Body::from("a,b")).unwrap()).await);
            let large = typed("application/json").header("content-length", "99999999");
            answers.push(bench.send(large.body(Body::from(" ")).unwrap()).await);
        }
        seen.extend(answers.iter().map(|answer| documented(path, method, answer)));
    }
    let refusals: BTreeSet<_> = ["413", "414", "415", "431"].map(str::to_owned).into();
    assert!(refusals.is_subset(&seen), "{seen:?}");
}

#[tokio::test]
async fn execution_answers_match_openapi() {
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
        ("AcceptedEventVerdicts", batch),
        ("Problem", bench.get("/v1/nothing").await.json()),
        ("Problem", bench.post("/v1/executions", &json!({"x": 1})).await.json()),
        ("Event", bench.send(get(accepted.header("location"))).await.json()),
    ];
    for (schema, path) in [
        ("DefinitionWithSource", "/v1/definitions/order"),
        ("DefinitionVersionPage", "/v1/definitions"),
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
    // The schema reader is able to reject.
    assert!(!mismatches(&document, "Health", &json!({"status": "ok", "version": 1})).is_empty());
}

#[tokio::test]
async fn incident_answers_match_openapi() {
    let bench = Bench::with_payment().await;
    let document = bench.get("/openapi.json").await.json();
    let (first, second) = (bench.incident("p-1").await, bench.incident("p-2").await);
    let one = format!("/v1/incidents/{}", first["incident_id"].as_str().unwrap());
    let open = bench.get(&one).await.json();
    let groups = bench.get("/v1/incidents/groups").await.json();
    let retried = bench.post(&decision(&first, "retry"), &json!({"reason": "again"})).await.json();
    let group = format!("/v1/incidents/groups/{}/cancel", second["fingerprint"].as_str().unwrap());
    let cancelled = bench.post(&group, &json!({"reason": "enough"})).await.json();

    bench.define("{name: kid, initial: a, correlate: context.order, states: {a: {on: {go: {}}}}}").await;
    let signal = json!({"correlation": "o-1", "name": "go"});
    let buffered = bench.post("/v1/signals", &signal).await;
    let kept = bench.get(buffered.header("location")).await.json();
    let kid = json!({"definition": "kid", "input": {"order": "o-1"}});
    let started = bench.post("/v1/executions", &kid).await.json();
    let delivered = bench.post("/v1/signals", &signal).await;
    for (schema, answer) in [
        ("Incident", first),
        ("IncidentDetail", open),
        ("IncidentDetail", bench.get(&one).await.json()),
        ("IncidentPage", bench.get("/v1/incidents").await.json()),
        ("IncidentGroupPage", groups),
        ("ResolvedIncident", retried),
        ("ResolvedGroup", cancelled),
        ("ActionPage", bench.get("/v1/executions/p-1/actions").await.json()),
        ("AcceptedSignal", buffered.json()),
        ("AcceptedSignal", delivered.json()),
        ("Signal", kept),
        ("Signal", bench.get(delivered.header("location")).await.json()),
        ("Execution", started),
    ] {
        assert_eq!(mismatches(&document, schema, &answer), Vec::<String>::new(), "{answer:#}");
    }
}
