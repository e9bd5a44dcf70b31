//! The OpenAPI document: generated from the routes and the types of `millstream_api`.
//!
//! Paths, methods, roles, parameters and responses come from the values that define the router, the schemas of
//! bodies from the types that the ingress serialises (see `docs/decisions/openapi.md`). Schemas that have no
//! type yet are in `openapi/schemas.json`.

use bytes::Bytes;
use millstream_api::problem::Problem;
use millstream_api::schema::{ApiSchemas, schema_of};
use millstream_model::status::Role;
use serde_json::{Map, Value, json};

use crate::http::all_routes;
use crate::http::problem::{status_of_kind, urn_of_kind};
use crate::http::route::{BodySchema, BodyUse, LocationHeader, OperationLink, RouteOperation};
use crate::refusal::RefusalKind;

const SCHEMAS: &str = include_str!("openapi/schemas.json");

/// The whole document, as it is served.
pub(crate) fn render_document() -> Bytes {
    document().to_string().into()
}

/// The whole document.
pub fn document() -> Value {
    let mut paths = Map::new();
    let mut types = ApiSchemas::default();
    for route in all_routes() {
        let path = paths.entry(route.doc.path).or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(path) = path {
            path.insert(route.doc.method.to_owned(), operation(&route.doc, &mut types));
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
            "schemas": schemas(types),
            "securitySchemes": {
                "key": { "type": "http", "scheme": "bearer", "description": "An API key: ms_…" },
            },
        },
    })
}

fn operation(doc: &RouteOperation, types: &mut ApiSchemas) -> Value {
    let mut operation = json!({
        "operationId": doc.id,
        "summary": doc.summary,
        "responses": responses(doc, types),
    });
    let parameters = parameters(doc);
    if !parameters.is_empty() {
        operation["parameters"] = Value::Array(parameters);
    }
    if !doc.bodies.is_empty() {
        let content: Map<String, Value> = doc
            .bodies
            .iter()
            .map(|(media, schema)| ((*media).to_owned(), request_content(*schema, types)))
            .collect();
        let required = doc.body_use == BodyUse::Required;
        operation["requestBody"] = json!({ "required": required, "content": content });
    }
    if let Some(permission) = doc.needs {
        let roles: Vec<_> = Role::ALL.iter().filter(|role| role.permits(permission)).collect();
        operation["security"] = json!([{ "key": [] }]);
        operation["x-permission"] = json!(permission.as_str());
        operation["x-roles"] = json!(roles);
    }
    operation
}

fn parameters(doc: &RouteOperation) -> Vec<Value> {
    let in_path = doc.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let in_path = in_path.map(|name| {
        json!({ "name": name, "in": "path", "required": true, "schema": reference(path_schema(name)) })
    });
    let in_query = doc.query.iter().map(|(name, schema)| {
        // HTML forms send empty fields as well: they count as absent.
        json!({ "name": name, "in": "query", "required": false, "allowEmptyValue": true, "schema": reference(schema) })
    });
    let in_headers = doc.headers.iter().map(|name| {
        json!({ "name": name, "in": "header", "required": false, "schema": reference(header_schema(doc, name)) })
    });
    in_path.chain(in_query).chain(in_headers).collect()
}

/// A path parameter has the same schema in every path.
fn path_schema(name: &str) -> &'static str {
    match name {
        "name" => "Name",
        "version" => "Version",
        "execution_id" | "graph_id" => "ExecutionId",
        "node" => "Name",
        "event_id" | "signal_id" => "EventId",
        "incident_id" => "IncidentId",
        "fingerprint" => "Fingerprint",
        "key" => "TaskKey",
        "device_id" => "DeviceId",
        "run_id" => "RunId",
        "queue" => "Name",
        "person" => "PersonId",
        "item_id" => "ItemId",
        "assignment_id" => "AssignmentId",
        "tenant" => "TenantId",
        "key_id" => "KeyId",
        _ => "Text",
    }
}

/// A header has the same schema on every call, except the resume position of a stream.
fn header_schema(doc: &RouteOperation, name: &str) -> &'static str {
    match name {
        "Last-Event-ID" if doc.id == "watch_graph" => "WatchPlace",
        "Last-Event-ID" if doc.id == "watch_assignments" => "AssignmentsVersion",
        "Idempotency-Key" => "IdempotencyHeader",
        "Prefer" => "Prefer",
        "Millstream-Validate" => "Validate",
        "Last-Event-ID" => "SeqOrZero",
        // An invalid trace context or request id is not an error: the server replaces it.
        _ => "Text",
    }
}

fn responses(doc: &RouteOperation, types: &mut ApiSchemas) -> Value {
    let mut responses = Map::new();
    for (status, media, schema, meaning) in &doc.answers {
        let mut answer = json!({ "description": meaning, "headers": good_headers(doc.located) });
        if !media.is_empty() {
            answer["content"] = json!({ *media: response_content(*schema, types) });
        }
        if !doc.links.is_empty() {
            answer["links"] = links(&doc.links);
        }
        responses.insert(status.to_string(), answer);
    }
    // Refusals of the gate before the handler runs, and internal errors.
    let mut problems = vec![403, 414, 431, 500];
    if doc.needs.is_some() {
        problems.extend([400, 401, 422, 429, 503]);
    }
    if !doc.bodies.is_empty() {
        problems.extend([408, 413, 415]);
    }
    problems.extend(doc.problems);
    for status in problems {
        responses.insert(status.to_string(), problem(status, types));
    }
    Value::Object(responses)
}

fn problem(status: u16, types: &mut ApiSchemas) -> Value {
    let kinds = RefusalKind::ALL.iter().filter(|kind| status_of_kind(**kind).as_u16() == status);
    let titles: Vec<_> = kinds.map(|kind| kind.title()).collect();
    let mut headers = json!({ "x-request-id": request_id() });
    if matches!(status, 429 | 503) {
        let wait =
            json!({ "description": "Seconds to wait", "required": true, "schema": reference("Seconds") });
        headers["Retry-After"] = wait;
    }
    if status == 401 {
        let challenge =
            json!({ "description": "How to authenticate", "required": true, "schema": reference("Text") });
        headers["WWW-Authenticate"] = challenge;
    }
    json!({
        "description": titles.join("; "),
        "headers": headers,
        "content": { "application/problem+json": { "schema": types.response(schema_of::<Problem>) } },
    })
}

fn good_headers(located: LocationHeader) -> Value {
    let mut headers = json!({ "x-request-id": request_id() });
    let required = match located {
        LocationHeader::Never => return headers,
        LocationHeader::Always => true,
        LocationHeader::OfOne => false,
    };
    headers["Location"] =
        json!({ "description": "URL of the resource", "required": required, "schema": reference("Text") });
    headers
}

fn request_id() -> Value {
    json!({ "description": "Id of the request, also in the server log", "required": true, "schema": reference("Text") })
}

fn links(links: &[OperationLink]) -> Value {
    let link = |link: &OperationLink| {
        let parameters = link.parameters.iter();
        let parameters: Map<String, Value> =
            parameters.map(|name| ((*name).to_owned(), json!(format!("$response.body#/{name}")))).collect();
        (link.operation.to_owned(), json!({ "operationId": link.operation, "parameters": parameters }))
    };
    Value::Object(links.iter().map(link).collect())
}

fn request_content(schema: BodySchema, types: &mut ApiSchemas) -> Value {
    match schema {
        BodySchema::Type(schema_of) => json!({ "schema": types.request(schema_of) }),
        BodySchema::Name(name) => content(name),
    }
}

fn response_content(schema: BodySchema, types: &mut ApiSchemas) -> Value {
    match schema {
        BodySchema::Type(schema_of) => json!({ "schema": types.response(schema_of) }),
        BodySchema::Name(name) => content(name),
    }
}

fn content(schema: &str) -> Value {
    json!({ "schema": reference(schema) })
}

fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

fn schemas(types: ApiSchemas) -> Value {
    let mut schemas: Value = serde_json::from_str(SCHEMAS).unwrap_or_default();
    let (of_types, _) = types.finish();
    if let Value::Object(schemas) = &mut schemas {
        schemas.extend(of_types);
    }
    let urns: Vec<_> = RefusalKind::ALL.iter().map(|kind| urn_of_kind(*kind)).collect();
    schemas["Problem"]["properties"]["type"] = json!({ "type": "string", "enum": urns });
    schemas
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_responses_describe_shared_types_alike() {
        let mut types = ApiSchemas::default();
        for route in all_routes() {
            operation(&route.doc, &mut types);
        }
        let (of_types, conflicts) = types.finish();
        assert_eq!(conflicts, Vec::<String>::new());
        let by_hand: Map<String, Value> = serde_json::from_str(SCHEMAS).unwrap();
        let twice: Vec<&String> = by_hand.keys().filter(|name| of_types.contains_key(*name)).collect();
        assert!(twice.is_empty(), "described by a type and in the file: {twice:?}");
    }
}
