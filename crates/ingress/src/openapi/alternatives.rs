//! Alternatives of a schema as `oneOf` where at most one of them can hold.
//!
//! An untagged enum is described by `anyOf`. Generators read that as a merge of all alternatives, and `oneOf` as a
//! choice between them. Where the alternatives exclude each other both accept the same values, so the choice is
//! written. Alternatives with null stay: generators know them as a nullable schema.

use serde_json::{Map, Value};

/// Writes `oneOf` for `anyOf` where that accepts the same values, in all schemas by name.
pub(super) fn choose_between(schemas: &mut Value) {
    let Value::Object(all) = schemas else { return };
    let names = all.clone();
    all.values_mut().for_each(|schema| choose_in(schema, &names));
}

fn choose_in(schema: &mut Value, names: &Map<String, Value>) {
    match schema {
        Value::Object(keywords) => {
            if let Some(Value::Array(options)) = keywords.get("anyOf")
                && exclude_each_other(options, names)
                && let Some(options) = keywords.remove("anyOf")
            {
                keywords.insert("oneOf".to_owned(), options);
            }
            keywords.values_mut().for_each(|value| choose_in(value, names));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| choose_in(item, names)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn exclude_each_other(options: &[Value], names: &Map<String, Value>) -> bool {
    let options: Vec<&Value> = options.iter().map(|option| resolve(option, names)).collect();
    options.iter().all(|option| option["type"] != "null")
        && options
            .iter()
            .enumerate()
            .all(|(n, one)| options.iter().skip(n + 1).all(|other| are_disjoint(one, other)))
}

fn resolve<'a>(schema: &'a Value, names: &'a Map<String, Value>) -> &'a Value {
    let name = schema["$ref"].as_str().and_then(|path| path.strip_prefix("#/components/schemas/"));
    name.and_then(|name| names.get(name)).unwrap_or(schema)
}

/// Whether no value is valid for both. False where that is not known.
fn are_disjoint(one: &Value, other: &Value) -> bool {
    match (one["type"].as_str(), other["type"].as_str()) {
        (Some("object"), Some("object")) => lacks_required(one, other) || lacks_required(other, one),
        (Some("integer" | "number"), Some("integer" | "number")) => false,
        (Some(one), Some(other)) => one != other,
        (None, _) | (_, None) => false,
    }
}

/// Whether `closed` has no place for a field that `open` requires.
fn lacks_required(closed: &Value, open: &Value) -> bool {
    let mut required = open["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    closed["additionalProperties"] == false && required.any(|field| closed["properties"].get(field).is_none())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn is_choice(options: Value) -> bool {
        let closed = json!({ "type": "object", "properties": { "a": {} }, "required": ["a"], "additionalProperties": false });
        let mut schemas = json!({ "Closed": closed, "Choice": { "anyOf": options } });
        choose_between(&mut schemas);
        schemas["Choice"].get("oneOf").is_some()
    }

    #[test]
    fn different_types_are_a_choice() {
        assert!(is_choice(json!([{ "type": "integer" }, { "type": "string" }])));
        assert!(!is_choice(json!([{ "type": "integer" }, { "type": "number" }])));
        assert!(!is_choice(json!([{ "type": "integer" }, { "type": "string" }, { "type": "null" }])));
    }

    #[test]
    fn closed_objects_with_different_fields_are_a_choice() {
        let reference = json!({ "$ref": "#/components/schemas/Closed" });
        let other = json!({ "type": "object", "properties": { "b": {} }, "required": ["b"] });
        assert!(is_choice(json!([reference, other])));
        let same = json!({ "type": "object", "properties": { "a": {}, "b": {} }, "required": ["a"] });
        assert!(!is_choice(json!([reference, same])));
    }
}
