//! Responses of an operation: answers of its handler, refusals of the gate, their headers and links.

use millstream_api::problem::Problem;
use millstream_api::schema::{ApiSchemas, schema_of};
use serde_json::{Map, Value, json};

use super::component_schemas::reference;
use crate::http::problem::status_of_kind;
use crate::http::route::{LocationHeader, OperationAnswer, OperationLink, RouteOperation};
use crate::refusal::RefusalKind;

pub(super) fn describe_answers(doc: &RouteOperation, types: &mut ApiSchemas) -> Value {
    let mut responses = Map::new();
    for OperationAnswer { status, meaning, body } in &doc.answers {
        let mut answer = json!({ "description": meaning, "headers": good_headers(doc.located) });
        if let Some((media, schema_of)) = body {
            answer["content"] = json!({ *media: { "schema": types.response(*schema_of) } });
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
