//! A reader of the JSON Schema keywords that our document uses, to check real answers against it.

use serde_json::Value;

/// The violations of a schema of the document by `value`; empty if it is valid.
pub(crate) fn mismatches(document: &Value, name: &str, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let schema = &document["components"]["schemas"][name];
    assert!(schema.is_object(), "the document has no schema {name}");
    check(document, schema, value, name, &mut found);
    found
}

fn check(document: &Value, schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.trim_start_matches("#/components/schemas/");
        let target = &document["components"]["schemas"][name];
        if target.is_null() {
            found.push(format!("{at}: no schema {name}"));
        }
        return check(document, target, value, at, found);
    }
    for word in ["oneOf", "anyOf"] {
        if let Some(options) = schema[word].as_array() {
            let fits = |option: &&Value| {
                let mut inner = Vec::new();
                check(document, option, value, at, &mut inner);
                inner.is_empty()
            };
            if options.iter().filter(fits).count() == 0 {
                found.push(format!("{at}: {value} fits none of {word}"));
            }
        }
    }
    let several = schema["type"].as_array().into_iter().flatten();
    let wanted: Vec<&str> = several.chain([&schema["type"]]).filter_map(Value::as_str).collect();
    if !wanted.is_empty() && !wanted.iter().any(|wanted| is_of_type(wanted, value)) {
        found.push(format!("{at}: {value} is not of type {wanted:?}"));
    }
    if let Some(words) = schema["enum"].as_array()
        && !words.contains(value)
    {
        found.push(format!("{at}: {value} is not one of {words:?}"));
    }
    if let (Some(items), Some(values)) = (schema.get("items"), value.as_array()) {
        for (n, value) in values.iter().enumerate() {
            check(document, items, value, &format!("{at}[{n}]"), found);
        }
    }
    if let (Some(each @ Value::Object(_)), Some(object)) =
        (schema.get("additionalProperties"), value.as_object())
    {
        for (name, value) in object {
            check(document, each, value, &format!("{at}.{name}"), found);
        }
    }
    if let (Some(properties), Some(object)) = (schema["properties"].as_object(), value.as_object()) {
        for required in schema["required"].as_array().into_iter().flatten() {
            if !object.contains_key(required.as_str().unwrap()) {
                found.push(format!("{at}: {required} is missing"));
            }
        }
        for (name, value) in object {
            match properties.get(name) {
                Some(schema) => check(document, schema, value, &format!("{at}.{name}"), found),
                None if schema["additionalProperties"] == false => {
                    found.push(format!("{at}: {name} is not described"))
                }
                None => {}
            }
        }
    }
}

fn is_of_type(wanted: &str, value: &Value) -> bool {
    match wanted {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        other => panic!("the reader does not know the type {other}"),
    }
}
