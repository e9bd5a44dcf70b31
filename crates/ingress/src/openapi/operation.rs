//! One method on one path: parameters, body, responses, and who may call it.

use millstream_api::schema::ApiSchemas;
use millstream_model::status::Role;
use serde_json::{Map, Value, json};

use super::answers::describe_answers;
use super::component_schemas::reference;
use super::description::describe_call;
use crate::http::api_tag::ApiTag;
use crate::http::route::{BodyUse, RouteOperation};

pub(super) fn describe_operation(doc: &RouteOperation, tag: ApiTag, types: &mut ApiSchemas) -> Value {
    let mut operation = json!({
        "operationId": doc.id,
        "tags": [tag.name()],
        "summary": doc.summary,
        "description": describe_call(doc),
        // Empty: no key is needed. Without it a reader could not tell that from a forgotten one.
        "security": [],
        "responses": describe_answers(doc, types),
    });
    let parameters = parameters(doc);
    if !parameters.is_empty() {
        operation["parameters"] = Value::Array(parameters);
    }
    if !doc.bodies.is_empty() {
        let content: Map<String, Value> = doc
            .bodies
            .iter()
            .map(|(media, schema_of)| ((*media).to_owned(), json!({ "schema": types.request(*schema_of) })))
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
