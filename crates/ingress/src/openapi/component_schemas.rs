//! The schemas of all bodies and parameters by name: of the types that the operations name.

use millstream_api::schema::ApiSchemas;
use serde_json::{Value, json};

use crate::http::problem::urn_of_kind;
use crate::refusal::RefusalKind;

/// Every schema by name.
pub(super) fn all_schemas(types: ApiSchemas) -> Value {
    let (schemas, _) = types.finish();
    let mut schemas = Value::Object(schemas);
    let urns: Vec<_> = RefusalKind::ALL.iter().map(|kind| urn_of_kind(*kind)).collect();
    schemas["Problem"]["properties"]["type"] = json!({ "type": "string", "enum": urns });
    schemas
}

pub(super) fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

#[cfg(test)]
mod tests {
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
        let (_, conflicts) = types.finish();
        assert_eq!(conflicts, Vec::<String>::new());
    }
}
