//! Reads a definition from the document tree: the top level.
//!
//! A part that cannot be read is reported and replaced by a harmless default, so that the later passes
//! find further problems. A definition with problems never leaves the module.

use std::collections::BTreeMap;

use super::document::Node;
use super::limits::MAX_STATES;
use super::model::{Definition, Mode};
use super::reader::{Reader, join};
use super::suggest::did_you_mean;
use super::{read_action, read_state};
use crate::id::Name;
use crate::log::{Context, MAX_CONTEXT_BYTES, context_bytes};
use crate::problem::Problem;
use crate::raw::RawJson;

const FIELDS: &[&str] =
    &["dialect", "name", "mode", "initial", "context", "timeout", "correlate", "states", "actions"];

pub(super) fn definition(document: &Node) -> (Definition, Vec<Problem>) {
    let mut reader = Reader::default();
    let definition = read(&mut reader, document);
    (definition, reader.problems)
}

fn read(reader: &mut Reader, document: &Node) -> Definition {
    let mut definition = Definition {
        name: Name::start(),
        mode: Mode::Async,
        initial: Name::start(),
        context: Context::new(),
        timeout: None,
        correlate: None,
        states: BTreeMap::new(),
        actions: BTreeMap::new(),
    };
    let Some(fields) = reader.fields("", document, FIELDS) else { return definition };
    if let Some((path, node)) = fields.get("dialect")
        && let Some(dialect) = reader.int(&path, node)
        && dialect != Definition::DIALECT
    {
        reader.problem(path, format!("this version reads dialect {} only", Definition::DIALECT));
    }
    match fields.get("name") {
        Some((path, node)) => {
            if let Some(name) = reader.name(&path, node) {
                definition.name = name;
            }
        }
        None => reader.problem("name", "is missing"),
    }
    if let Some((path, node)) = fields.get("mode") {
        definition.mode = mode(reader, &path, node);
    }
    match fields.get("states") {
        Some((path, node)) => states(reader, &path, node, &mut definition),
        None => reader.problem("states", "is missing"),
    }
    match fields.get("initial") {
        Some((path, node)) => {
            if let Some(name) = reader.name(&path, node) {
                definition.initial = name;
            }
        }
        None => reader.problem("initial", "is missing"),
    }
    if let Some((path, node)) = fields.get("context") {
        definition.context = context(reader, &path, node);
    }
    if let Some((path, node)) = fields.get("timeout") {
        definition.timeout = reader.length(&path, node);
    }
    if let Some((path, node)) = fields.get("correlate") {
        definition.correlate = reader.text(&path, node).map(str::to_owned);
    }
    if let Some((path, node)) = fields.get("actions") {
        definition.actions = read_action::actions(reader, &path, node);
    }
    definition
}

fn mode(reader: &mut Reader, path: &str, node: &Node) -> Mode {
    match reader.text(path, node) {
        Some("async") | None => Mode::Async,
        Some("sync") => Mode::Sync,
        Some(other) => {
            let hint = did_you_mean(other, ["async", "sync"].into_iter());
            reader.problem(path, format!("must be async or sync, not {other:?}{hint}"));
            Mode::Async
        }
    }
}

fn states(reader: &mut Reader, path: &str, node: &Node, definition: &mut Definition) {
    let Some(entries) = reader.map(path, node) else { return };
    if entries.is_empty() {
        reader.problem(path, "has no state");
    }
    reader.limit(path, "states", entries.len(), MAX_STATES);
    for (key, node) in entries {
        let path = join(path, key);
        if let Some(name) = reader.declared(&path, key) {
            let spec = read_state::state(reader, &path, node);
            definition.states.insert(name, spec);
        }
    }
}

fn context(reader: &mut Reader, path: &str, node: &Node) -> Context {
    let mut context = Context::new();
    for (key, node) in reader.map(path, node).unwrap_or_default() {
        refuse_huge(reader, &join(path, key), node);
        context.insert(key.clone(), RawJson::trusted(node.to_json()));
    }
    if context_bytes(&context) > MAX_CONTEXT_BYTES {
        reader.problem(path, format!("is larger than {} KiB", MAX_CONTEXT_BYTES / 1024));
    }
    context
}

/// Reports integers that do not fit 64 bits, and duplicate keys, anywhere in literal data.
pub(crate) fn refuse_huge(reader: &mut Reader, path: &str, node: &Node) {
    match node {
        Node::Huge(digits) => {
            reader.problem(path, format!("{digits} does not fit a 64-bit integer: write it as a string"));
        }
        Node::List(items) => {
            for (n, item) in items.iter().enumerate() {
                refuse_huge(reader, &format!("{path}[{n}]"), item);
            }
        }
        Node::Map(_) => {
            for (key, item) in reader.map(path, node).unwrap_or_default() {
                refuse_huge(reader, &join(path, key), item);
            }
        }
        Node::Null | Node::Bool(_) | Node::Int(_) | Node::Double(_) | Node::Text(_) => {}
    }
}
