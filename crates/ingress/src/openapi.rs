//! The OpenAPI document: made from the routes themselves and a file of schemas.
//!
//! Paths, methods, roles, parameters and answers come from the same values that the router is made of;
//! the shapes of bodies are written by hand in `openapi/schemas.json` and checked against real answers
//! by the tests (see `docs/decisions/openapi.md`).

use serde_json::{Map, Value, json};

use crate::http::all_routes;
use crate::http::problem::Kind;
use crate::http::route::{BodyUse, Operation};

const SCHEMAS: &str = include_str!("openapi/schemas.json");

/// The whole document.
pub fn document() -> Value {
    let mut paths = Map::new();
    for route in all_routes() {
        let path = paths.entry(route.doc.path).or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(path) = path {
            path.insert(route.doc.method.to_owned(), operation(&route.doc));
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Millstream",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "A durable, event-sourced workflow engine. A 2xx answer to something that was \
                sent means that it is durable. Errors are application/problem+json.",
            "license": { "name": "Apache-2.0 OR MIT" },
        },
        "paths": paths,
        "components": {
            "schemas": schemas(),
            "securitySchemes": {
                "key": { "type": "http", "scheme": "bearer", "description": "An API key: ms_…" },
            },
        },
    })
}

fn operation(doc: &Operation) -> Value {
    let mut operation = json!({
        "operationId": doc.id,
        "summary": doc.summary,
        "responses": responses(doc),
    });
    let parameters = parameters(doc);
    if !parameters.is_empty() {
        operation["parameters"] = Value::Array(parameters);
    }
    if !doc.bodies.is_empty() {
        let content: Map<String, Value> =
            doc.bodies.iter().map(|(media, schema)| ((*media).to_owned(), content(schema))).collect();
        let required = doc.body_use == BodyUse::Required;
        operation["requestBody"] = json!({ "required": required, "content": content });
    }
    if let Some(role) = doc.needs {
        operation["security"] = json!([{ "key": [] }]);
        operation["x-role"] = json!(role.as_str());
    }
    operation
}

fn parameters(doc: &Operation) -> Vec<Value> {
    let parameter = |name: &str, place: &str, required: bool| json!({ "name": name, "in": place, "required": required, "schema": { "type": "string" } });
    let in_path = doc.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let in_path = in_path.map(|name| parameter(name, "path", true));
    let in_query = doc.query.iter().map(|name| parameter(name, "query", false));
    let in_headers = doc.headers.iter().map(|name| parameter(name, "header", false));
    in_path.chain(in_query).chain(in_headers).collect()
}

fn responses(doc: &Operation) -> Value {
    let mut responses = Map::new();
    for (status, media, schema, meaning) in &doc.answers {
        let mut answer = json!({ "description": meaning });
        if !media.is_empty() {
            answer["content"] = json!({ *media: content(schema) });
        }
        responses.insert(status.to_string(), answer);
    }
    let common: &[u16] = if doc.needs.is_some() { &[400, 401, 403, 422, 429, 500, 503] } else { &[] };
    for status in doc.problems.iter().chain(common) {
        let kinds = Kind::ALL.iter().filter(|kind| kind.status().as_u16() == *status);
        let titles: Vec<_> = kinds.map(|kind| kind.title()).collect();
        let answer = json!({
            "description": titles.join("; "),
            "content": { "application/problem+json": content("Problem") },
        });
        responses.insert(status.to_string(), answer);
    }
    Value::Object(responses)
}

fn content(schema: &str) -> Value {
    json!({ "schema": { "$ref": format!("#/components/schemas/{schema}") } })
}

fn schemas() -> Value {
    let mut schemas: Value = serde_json::from_str(SCHEMAS).unwrap_or_default();
    let urns: Vec<_> = Kind::ALL.iter().map(|kind| kind.urn()).collect();
    schemas["Problem"]["properties"]["type"] = json!({ "type": "string", "enum": urns });
    schemas
}
