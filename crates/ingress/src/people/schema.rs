//! JSON Schemas of answers, compiled: draft 2020-12, no remote references, patterns in linear time.

use jsonschema::{Draft, PatternOptions, Validator};
use millstream_model::problem::ValidationProblem;
use millstream_model::raw::RawJson;
use serde_json::{Map, Value};

use super::schema_steps::{STEP_KEYWORD, compile_keyword, count_steps, uncounted_reference};

/// Upper bound of one schema.
pub(crate) const MAX_SCHEMA_BYTES: usize = 64 * 1024;
/// Upper bound of one compiled pattern.
const PATTERN_BYTES: usize = 1024 * 1024;
/// Upper bound of the patterns in one schema.
const MAX_PATTERNS: usize = 64;
/// Estimated memory per byte of schema text after compilation, patterns aside; an upper estimate.
const COMPILED_BYTES: usize = 64;
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

pub(super) struct AnswerSchema {
    validator: Validator,
    /// The schema has no internal references: its cost is bounded by its size.
    pub(super) is_plain: bool,
    /// Upper estimate of its memory, its text aside.
    pub(super) weight: usize,
}

impl AnswerSchema {
    /// Compiles a schema; the problem's path begins at `schema`.
    pub(super) fn compile_schema(text: &RawJson) -> Result<Self, ValidationProblem> {
        if text.len() > MAX_SCHEMA_BYTES {
            let most = MAX_SCHEMA_BYTES / 1024;
            return Err(ValidationProblem::new("schema", format!("is larger than {most} KiB")));
        }
        let mut value: Value = serde_json::from_str(text.as_str())
            .map_err(|error| ValidationProblem::new("schema", format!("cannot be read: {error}")))?;
        if let Some(dialect) = value.get("$schema")
            && dialect.as_str().map(|uri| uri.trim_end_matches('#')) != Some(DIALECT)
        {
            return Err(ValidationProblem::new(
                "schema.$schema",
                format!("must be {DIALECT}, or be left out"),
            ));
        }
        if let Some((path, target)) = foreign_reference(&value, "schema") {
            let message = format!("{target:?} is not in this schema; references to others are not followed");
            return Err(ValidationProblem::new(path, message));
        }
        let patterns = count_patterns(&value);
        if patterns > MAX_PATTERNS {
            let message = format!("has {patterns} patterns, at most {MAX_PATTERNS} are compiled");
            return Err(ValidationProblem::new("schema", message));
        }
        let weight = patterns * PATTERN_BYTES + text.len() * COMPILED_BYTES;
        let is_plain = !has_references(&value);
        count_steps(&mut value);
        if let Some(target) = uncounted_reference(&value) {
            return Err(ValidationProblem::new("schema", format!("{target:?} is not a place for a schema")));
        }
        let pattern_options = PatternOptions::regex().size_limit(PATTERN_BYTES).dfa_size_limit(PATTERN_BYTES);
        let options = jsonschema::options().with_draft(Draft::Draft202012).offline();
        let validator = options
            .with_pattern_options(pattern_options)
            .with_keyword(STEP_KEYWORD, compile_keyword)
            .build(&value)
            .map_err(|error| {
                let path = dotted_path("schema", error.instance_path().as_str());
                ValidationProblem::new(
                    path,
                    format!("is not a JSON Schema: {}", clip_message(&error.to_string())),
                )
            })?;
        Ok(Self { validator, is_plain, weight })
    }

    /// All problems of an answer, at JSON pointers into it; at most `most`.
    pub(super) fn find_problems(&self, answer: &RawJson, most: usize) -> Vec<ValidationProblem> {
        let value: Value = match serde_json::from_str(answer.as_str()) {
            Ok(value) => value,
            Err(error) => return vec![ValidationProblem::new("", format!("cannot be read: {error}"))],
        };
        if self.validator.is_valid(&value) {
            return Vec::new();
        }
        let errors = self.validator.iter_errors(&value).take(most);
        let told = errors.map(|error| {
            ValidationProblem::new(
                error.instance_path().as_str(),
                clip_message(&error.to_string()).to_owned(),
            )
        });
        let mut problems: Vec<ValidationProblem> = told.collect();
        if problems.is_empty() {
            problems.push(ValidationProblem::new("", "does not match the schema"));
        }
        problems
    }
}

/// Truncates a message, which may quote the whole answer.
fn clip_message(message: &str) -> &str {
    message.char_indices().nth(500).map_or(message, |(at, _)| &message[..at])
}

/// Converts a JSON pointer to the path form of definitions.
fn dotted_path(root: &str, pointer: &str) -> String {
    let parts = pointer.split('/').skip(1).map(|part| part.replace("~1", "/").replace("~0", "~"));
    parts.fold(root.to_owned(), |path, part| format!("{path}.{part}"))
}

/// The number of texts that may be compiled as patterns.
fn count_patterns(value: &Value) -> usize {
    match value {
        Value::Object(fields) => {
            let own = usize::from(fields.get("pattern").is_some_and(Value::is_string));
            let named = fields.get("patternProperties").and_then(Value::as_object).map_or(0, Map::len);
            own + named + fields.values().map(count_patterns).sum::<usize>()
        }
        Value::Array(items) => items.iter().map(count_patterns).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

const REFERENCES: &[&str] = &["$ref", "$dynamicRef"];

/// The first reference that leaves the document, as far as its text shows: an absolute one, unless a
/// subschema has that `$id`.
fn foreign_reference(value: &Value, path: &str) -> Option<(String, String)> {
    fn ids<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$id").and_then(Value::as_str));
                fields.values().for_each(|field| ids(field, found));
            }
            Value::Array(items) => items.iter().for_each(|item| ids(item, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    fn look(value: &Value, path: &str, known: &[&str]) -> Option<(String, String)> {
        match value {
            Value::Object(fields) => fields.iter().find_map(|(name, field)| {
                let path = format!("{path}.{name}");
                match field {
                    Value::String(target) if REFERENCES.contains(&name.as_str()) => {
                        let resource = target.split('#').next().unwrap_or("");
                        // The library resolves relative references, and finds only this document.
                        let absolute = resource.contains("://") || resource.starts_with("urn:");
                        (absolute && !known.contains(&resource) && resource != DIALECT)
                            .then(|| (path, target.clone()))
                    }
                    Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => None,
                    Value::Object(_) | Value::Array(_) => look(field, &path, known),
                }
            }),
            Value::Array(items) => {
                items.iter().enumerate().find_map(|(at, item)| look(item, &format!("{path}[{at}]"), known))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        }
    }
    let mut known = Vec::new();
    ids(value, &mut known);
    look(value, path, &known)
}

fn has_references(value: &Value) -> bool {
    match value {
        Value::Object(fields) => {
            fields.iter().any(|(name, field)| REFERENCES.contains(&name.as_str()) || has_references(field))
        }
        Value::Array(items) => items.iter().any(has_references),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
