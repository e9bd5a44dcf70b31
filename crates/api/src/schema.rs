//! Generates the schemas of an OpenAPI document.
//!
//! A response is described as it is serialised, a request as it may be sent. A field of a response that is
//! omitted when it does not apply is never null, so the null of its `Option` is removed from its schema.

pub use schemars::JsonSchema;
use schemars::generate::{Contract, SchemaSettings};
use schemars::transform::{Transform, transform_subschemas};
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value};

use crate::scalar;

const PATH: &str = "/components/schemas";

/// The schema of a type, as a function: a route names types by it.
pub type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// The schema of `T`: a reference, where the type has a name.
pub fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// Collects the schemas of a document.
#[derive(Debug)]
pub struct ApiSchemas {
    requests: SchemaGenerator,
    responses: SchemaGenerator,
}

impl Default for ApiSchemas {
    fn default() -> Self {
        let mut schemas = Self {
            requests: generator_for(Contract::Deserialize),
            responses: generator_for(Contract::Serialize),
        };
        scalar::add_scalars(&mut schemas.requests);
        schemas
    }
}

fn generator_for(contract: Contract) -> SchemaGenerator {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = PATH.into();
    settings.meta_schema = None;
    settings.contract = contract;
    settings.into_generator()
}

impl ApiSchemas {
    pub fn request(&mut self, schema_of: SchemaOf) -> Value {
        schema_of(&mut self.requests).to_value()
    }

    pub fn response(&mut self, schema_of: SchemaOf) -> Value {
        schema_of(&mut self.responses).to_value()
    }

    /// All schemas by name, and the names that requests and responses describe differently.
    pub fn finish(self) -> (Map<String, Value>, Vec<String>) {
        let (mut requests, mut responses) = (self.requests, self.responses);
        let mut all = requests.take_definitions(true);
        let mut conflicts = Vec::new();
        let mut omitted = OmittedFieldsAreNotNull;
        for (name, mut schema) in responses.take_definitions(true) {
            if let Ok(schema) = <&mut Schema>::try_from(&mut schema) {
                omitted.transform(schema);
            }
            match all.get(&name) {
                Some(request) if *request != schema => conflicts.push(name),
                Some(_) => {}
                None => drop(all.insert(name, schema)),
            }
        }
        (all, conflicts)
    }
}

/// A property that is not required is omitted instead of null.
#[derive(Debug, Clone)]
struct OmittedFieldsAreNotNull;

impl Transform for OmittedFieldsAreNotNull {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        let required: Vec<String> = schema
            .get("required")
            .and_then(Value::as_array)
            .map(|names| names.iter().filter_map(Value::as_str).map(str::to_owned).collect())
            .unwrap_or_default();
        let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
        for (name, property) in properties {
            if !required.contains(name) {
                remove_null(property);
            }
        }
    }
}

fn remove_null(property: &mut Value) {
    let Value::Object(property) = property else { return };
    if let Some(Value::Array(kinds)) = property.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if let [only] = kinds.as_slice() {
            let only = only.clone();
            property.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(options)) = property.get_mut("anyOf") {
        options.retain(|option| option["type"] != "null");
        if let [Value::Object(only)] = options.as_slice() {
            let only = only.clone();
            property.remove("anyOf");
            for (key, value) in only {
                property.entry(key).or_insert(value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};
    use serde_json::json;

    use super::*;

    #[derive(Serialize, Deserialize, JsonSchema)]
    struct SampleFields {
        #[schemars(with = "Option<scalar::Seq>")]
        shown_as_null: Option<i64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        omitted: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        omitted_reference: Option<SampleChild>,
    }

    #[derive(Serialize, Deserialize, JsonSchema)]
    struct SampleChild {
        n: u8,
    }

    fn schema(use_schema: impl FnOnce(&mut ApiSchemas)) -> Value {
        let mut schemas = ApiSchemas::default();
        use_schema(&mut schemas);
        schemas.finish().0.remove("SampleFields").unwrap()
    }

    #[test]
    fn omitted_fields_of_responses_are_not_null() {
        let response = schema(|schemas| drop(schemas.response(schema_of::<SampleFields>)));
        assert_eq!(response["required"], json!(["shown_as_null"]));
        assert_eq!(response["properties"]["omitted"], json!({ "type": "string" }));
        let reference = json!({ "$ref": "#/components/schemas/SampleChild" });
        assert_eq!(response["properties"]["omitted_reference"], reference);
        assert!(response["properties"]["shown_as_null"]["anyOf"].is_array(), "{response}");
    }

    #[test]
    fn optional_fields_of_requests_may_be_null() {
        let request = schema(|schemas| drop(schemas.request(schema_of::<SampleFields>)));
        assert!(request.get("required").is_none(), "{request}");
        assert_eq!(request["properties"]["omitted"]["type"], json!(["string", "null"]));
    }

    #[test]
    fn types_described_differently_are_reported() {
        let mut schemas = ApiSchemas::default();
        schemas.request(schema_of::<SampleFields>);
        schemas.response(schema_of::<SampleFields>);
        assert_eq!(schemas.finish().1, ["SampleFields"]);
    }
}
