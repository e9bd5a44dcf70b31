//! The whole document: information, tags, paths and components.

use bytes::Bytes;
use millstream_api::schema::ApiSchemas;
use serde_json::{Map, Value, json};

use super::{alternatives, component_schemas, operation, portable};
use crate::http::all_parts;
use crate::http::api_tag::ApiTag;

/// The document as it is served.
pub(crate) fn render_document() -> Bytes {
    document().to_string().into()
}

/// The document.
pub fn document() -> Value {
    let mut paths = Map::new();
    let mut types = ApiSchemas::default();
    for part in all_parts() {
        for route in &part.routes {
            let path = paths.entry(route.doc.path).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(path) = path {
                let operation = operation::describe_operation(&route.doc, part.tag, &mut types);
                path.insert(route.doc.method.to_owned(), operation);
            }
        }
    }
    let mut schemas = component_schemas::all_schemas(types);
    portable::make_portable(&mut schemas);
    alternatives::choose_between(&mut schemas);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Millstream",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "A durable, event-sourced workflow engine. A 2xx answer to something that was \
                sent means that it is durable. Errors are application/problem+json.",
            "license": { "name": "Apache-2.0 OR MIT", "identifier": env!("CARGO_PKG_LICENSE") },
        },
        // Relative to the address of the document: it is right behind every name and port of an ingress. A client
        // that has the document as a file sets the address itself, as it has to do for any installation.
        "servers": [{ "url": "/", "description": "The ingress that serves this document" }],
        "tags": ApiTag::ALL
            .iter()
            .map(|tag| json!({ "name": tag.name(), "description": tag.description() }))
            .collect::<Vec<_>>(),
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "key": { "type": "http", "scheme": "bearer", "description": "An API key: ms_…" },
            },
        },
    })
}
