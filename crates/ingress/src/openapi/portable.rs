//! Schemas in the form that client generators understand.
//!
//! JSON Schema permits forms that common generators reject, or drop without an error. They are replaced here by
//! equivalent ones, whether the schema comes from a type or from the file. `scripts/openapi-check` runs the
//! generators.
//!
//! | form | problem | replaced by |
//! |---|---|---|
//! | `type: [string, integer]` | generated as text only, or as any value | `oneOf`, one branch per type |
//! | `enum: [true, false, "failed"]` | openapi-python-client drops the schema and all that refer to it | the same |
//! | a property `type: null` | openapi-generator fails | a nullable text with the constant null |
//! | a nested schema that has the generated name of another (`Run.assign`, `RunAssign`) | both are dropped | a title |
//!
//! Refuses: changing which values are valid.

use serde_json::{Map, Value, json};

/// What describes a schema and does not validate: it stays outside of `oneOf`.
const ANNOTATIONS: &[&str] =
    &["title", "description", "default", "deprecated", "examples", "readOnly", "writeOnly"];

/// Replaces forms that generators do not understand, in all schemas by name.
pub(super) fn make_portable(schemas: &mut Value) {
    replace_forms(schemas);
    let Value::Object(schemas) = schemas else { return };
    let names: Vec<String> = schemas.keys().cloned().collect();
    for (name, schema) in schemas {
        title_nested(schema, name, &names);
    }
}

fn replace_forms(schema: &mut Value) {
    match schema {
        Value::Object(keywords) => {
            if let Some(Value::Object(properties)) = keywords.get_mut("properties") {
                properties.values_mut().for_each(replace_null);
            }
            split_types(keywords);
            keywords.values_mut().for_each(replace_forms);
        }
        Value::Array(items) => items.iter_mut().for_each(replace_forms),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn replace_null(property: &mut Value) {
    if property["type"] == "null" {
        property["type"] = json!(["string", "null"]);
        property["const"] = Value::Null;
    }
}

/// A schema of several types becomes `oneOf` a schema of each. Null beside one type is understood as it is.
fn split_types(keywords: &mut Map<String, Value>) {
    if ["oneOf", "anyOf", "allOf"].iter().any(|word| keywords.contains_key(*word)) {
        return;
    }
    let values = keywords.get("enum").and_then(Value::as_array).cloned();
    let kinds: Vec<String> = match (keywords.get("type"), &values) {
        (Some(Value::Array(kinds)), _) => kinds.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        (None, Some(values)) => {
            let mut kinds: Vec<String> = Vec::new();
            for kind in values.iter().map(kind_of) {
                if !kinds.iter().any(|known| known == kind) {
                    kinds.push(kind.to_owned());
                }
            }
            kinds
        }
        (Some(_), _) | (None, None) => return,
    };
    if kinds.iter().filter(|kind| *kind != "null").count() < 2 {
        return;
    }
    let mut branch = std::mem::take(keywords);
    for word in ANNOTATIONS {
        if let Some(annotation) = branch.remove(*word) {
            keywords.insert((*word).to_owned(), annotation);
        }
    }
    let branches = kinds.iter().map(|kind| {
        let mut branch = branch.clone();
        branch.insert("type".to_owned(), json!(kind));
        if let Some(values) = &values {
            let values: Vec<_> = values.iter().filter(|value| kind_of(value) == kind).collect();
            if (kind == "boolean" && values.len() == 2) || kind == "null" {
                branch.remove("enum");
            } else {
                branch.insert("enum".to_owned(), json!(values));
            }
        }
        Value::Object(branch)
    });
    let branches: Vec<_> = branches.collect();
    keywords.insert("oneOf".to_owned(), Value::Array(branches));
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Generators name a nested schema after its place: `Run.assign` is `RunAssign`. Where a schema of that name exists,
/// the nested one gets a title, which they prefer.
fn title_nested(schema: &mut Value, place: &str, names: &[String]) {
    let Value::Object(keywords) = schema else { return };
    if let Some(Value::Object(properties)) = keywords.get_mut("properties") {
        for (name, property) in properties {
            let place = format!("{place}{}", camel_case(name));
            let is_generated = property.get("enum").is_some() || property.get("properties").is_some();
            if is_generated && property.get("title").is_none() && names.contains(&place) {
                property["title"] = json!(format!("{place}Value"));
            }
            title_nested(property, &place, names);
        }
    }
}

fn camel_case(name: &str) -> String {
    let parts = name.split('_').map(|part| {
        let (head, tail) = part.split_at(part.chars().next().map_or(0, char::len_utf8));
        format!("{}{tail}", head.to_uppercase())
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn portable(schema: Value) -> Value {
        let mut schemas = json!({ "Run": schema, "RunAssign": {} });
        make_portable(&mut schemas);
        schemas["Run"].take()
    }

    #[test]
    fn several_types_become_branches() {
        let schema =
            json!({ "description": "A CEL expression.", "type": ["string", "boolean"], "maxLength": 9 });
        let branches = json!([{ "type": "string", "maxLength": 9 }, { "type": "boolean", "maxLength": 9 }]);
        assert_eq!(portable(schema), json!({ "description": "A CEL expression.", "oneOf": branches }));
    }

    #[test]
    fn one_type_or_null_stays() {
        let schema = json!({ "type": ["string", "null"], "enum": ["a", null] });
        assert_eq!(portable(schema.clone()), schema);
    }

    #[test]
    fn mixed_enum_is_split_by_type() {
        let branches = json!([{ "type": "boolean" }, { "type": "string", "enum": ["failed"] }]);
        assert_eq!(portable(json!({ "enum": [true, false, "failed"] })), json!({ "oneOf": branches }));
    }

    #[test]
    fn null_property_is_a_nullable_constant() {
        let schema = json!({ "properties": { "assignment": { "type": "null" } } });
        let replaced = json!({ "type": ["string", "null"], "const": null });
        assert_eq!(portable(schema)["properties"]["assignment"], replaced);
    }

    #[test]
    fn nested_enum_with_name_of_another_schema_has_a_title() {
        let words = |title: Option<&str>| {
            let mut words = json!({ "type": "string", "enum": ["auto"] });
            if let Some(title) = title {
                words["title"] = json!(title);
            }
            words
        };
        let schema = json!({ "properties": { "assign": words(None), "mode": words(None) } });
        let titled = json!({ "assign": words(Some("RunAssignValue")), "mode": words(None) });
        assert_eq!(portable(schema)["properties"], titled);
    }
}
