//! The schemas of all bodies: of the types that the operations name, and of the file.

use millstream_api::schema::ApiSchemas;
use serde_json::{Value, json};

use crate::http::problem::urn_of_kind;
use crate::refusal::RefusalKind;

const SCHEMAS: &str = include_str!("schemas.json");

/// Every schema by name.
pub(super) fn all_schemas(types: ApiSchemas) -> Value {
    let mut schemas: Value = serde_json::from_str(SCHEMAS).unwrap_or_default();
    let (of_types, _) = types.finish();
    if let Value::Object(schemas) = &mut schemas {
        schemas.extend(of_types);
    }
    let urns: Vec<_> = RefusalKind::ALL.iter().map(|kind| urn_of_kind(*kind)).collect();
    schemas["Problem"]["properties"]["type"] = json!({ "type": "string", "enum": urns });
    schemas
}

pub(super) fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;
    use crate::http::all_parts;
    use crate::openapi::operation::describe_operation;

    #[test]
    fn requests_and_responses_describe_shared_types_alike() {
        let mut types = ApiSchemas::default();
        for part in all_parts() {
            for route in &part.routes {
                describe_operation(&route.doc, part.tag, &mut types);
            }
        }
        let (of_types, conflicts) = types.finish();
        assert_eq!(conflicts, Vec::<String>::new());
        let by_hand: Map<String, Value> = serde_json::from_str(SCHEMAS).unwrap();
        let twice: Vec<&String> = by_hand.keys().filter(|name| of_types.contains_key(*name)).collect();
        assert!(twice.is_empty(), "described by a type and in the file: {twice:?}");
    }
}
