//! Reads a definition from the document tree: the top level.
//!
//! A part that cannot be read is reported and replaced by a harmless default, so that the later passes
//! find further problems. A definition with problems never leaves the module.

use std::collections::BTreeMap;

use millstream_model::context::{ExecutionContext, MAX_CONTEXT_BYTES, context_bytes};
use millstream_model::document::{DocumentNode, DocumentReader, check_integers, join_path};
use millstream_model::id::Name;
use millstream_model::problem::ValidationProblem;
use millstream_model::raw::RawJson;
use millstream_model::suggest::did_you_mean;

use super::limits::MAX_STATES;
use super::model::{Definition, ResponseMode};
use super::{read_action, read_state};

const FIELDS: &[&str] =
    &["dialect", "name", "mode", "initial", "context", "timeout", "correlate", "states", "actions"];

pub(crate) fn read_definition(document: &DocumentNode) -> (Definition, Vec<ValidationProblem>) {
    let mut reader = DocumentReader::default();
    let definition = read_top_level(&mut reader, document);
    (definition, reader.problems)
}

fn read_top_level(reader: &mut DocumentReader, document: &DocumentNode) -> Definition {
    let mut definition = Definition {
        name: Name::start_event(),
        mode: ResponseMode::Async,
        initial: Name::start_event(),
        context: ExecutionContext::new(),
        timeout: None,
        correlate: None,
        states: BTreeMap::new(),
        actions: BTreeMap::new(),
    };
    let Some(fields) = reader.read_fields("", document, FIELDS) else { return definition };
    if let Some((path, node)) = fields.get("dialect")
        && let Some(dialect) = reader.read_integer(&path, node)
        && dialect != Definition::DIALECT
    {
        reader.add_problem(path, format!("this version reads dialect {} only", Definition::DIALECT));
    }
    match fields.get("name") {
        Some((path, node)) => {
            if let Some(name) = reader.read_name(&path, node) {
                definition.name = name;
            }
        }
        None => reader.add_problem("name", "is missing"),
    }
    if let Some((path, node)) = fields.get("mode") {
        definition.mode = read_mode(reader, &path, node);
    }
    match fields.get("states") {
        Some((path, node)) => read_states(reader, &path, node, &mut definition),
        None => reader.add_problem("states", "is missing"),
    }
    match fields.get("initial") {
        Some((path, node)) => {
            if let Some(name) = reader.read_name(&path, node) {
                definition.initial = name;
            }
        }
        None => reader.add_problem("initial", "is missing"),
    }
    if let Some((path, node)) = fields.get("context") {
        definition.context = read_context(reader, &path, node);
    }
    if let Some((path, node)) = fields.get("timeout") {
        definition.timeout = reader.read_duration(&path, node);
    }
    if let Some((path, node)) = fields.get("correlate") {
        definition.correlate = reader.read_text(&path, node).map(str::to_owned);
    }
    if let Some((path, node)) = fields.get("actions") {
        definition.actions = read_action::read_actions(reader, &path, node);
    }
    definition
}

fn read_mode(reader: &mut DocumentReader, path: &str, node: &DocumentNode) -> ResponseMode {
    match reader.read_text(path, node) {
        Some("async") | None => ResponseMode::Async,
        Some("sync") => ResponseMode::Sync,
        Some(other) => {
            let hint = did_you_mean(other, ["async", "sync"].into_iter());
            reader.add_problem(path, format!("must be async or sync, not {other:?}{hint}"));
            ResponseMode::Async
        }
    }
}

fn read_states(reader: &mut DocumentReader, path: &str, node: &DocumentNode, definition: &mut Definition) {
    let Some(entries) = reader.read_map(path, node) else { return };
    if entries.is_empty() {
        reader.add_problem(path, "has no state");
    }
    reader.check_limit(path, "states", entries.len(), MAX_STATES);
    for (key, node) in entries {
        let path = join_path(path, key);
        if let Some(name) = reader.parse_declared_name(&path, key) {
            let spec = read_state::read_state(reader, &path, node);
            definition.states.insert(name, spec);
        }
    }
}

fn read_context(reader: &mut DocumentReader, path: &str, node: &DocumentNode) -> ExecutionContext {
    let mut context = ExecutionContext::new();
    for (key, node) in reader.read_map(path, node).unwrap_or_default() {
        check_integers(reader, &join_path(path, key), node);
        context.insert(key.clone(), RawJson::from_trusted_text(node.to_json()));
    }
    if context_bytes(&context) > MAX_CONTEXT_BYTES {
        reader.add_problem(path, format!("is larger than {} KiB", MAX_CONTEXT_BYTES / 1024));
    }
    context
}
