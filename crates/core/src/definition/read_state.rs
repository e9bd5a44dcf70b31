//! Reads states, their events and timers from the document tree.

use std::collections::{BTreeMap, BTreeSet};

use super::document::Node;
use super::limits::{MAX_ACTIONS_PER_LIST, MAX_TIMERS};
use super::model::{Alternative, Ending, StateKind, StateSpec, TimerSpec};
use super::reader::{Reader, join};
use super::template::Template;

pub(super) fn state(reader: &mut Reader, path: &str, node: &Node) -> StateSpec {
    let mut state = StateSpec {
        kind: StateKind::Working,
        on: BTreeMap::new(),
        after: Vec::new(),
        defer: BTreeSet::new(),
    };
    let Some(fields) = reader.fields(path, node, &["on", "after", "defer", "final"]) else { return state };
    if let Some((path, node)) = fields.get("final") {
        state.kind = kind(reader, &path, node);
    }
    if let Some((path, node)) = fields.get("on") {
        for (key, node) in reader.map(&path, node).unwrap_or_default() {
            let path = join(&path, key);
            let alternatives = alternatives(reader, &path, node);
            if let Some(event) = reader.declared(&path, key) {
                state.on.insert(event, alternatives);
            }
        }
    }
    if let Some((path, node)) = fields.get("after") {
        state.after = timers(reader, &path, node);
    }
    if let Some((path, node)) = fields.get("defer") {
        for (n, event) in reader.names(&path, node).into_iter().enumerate() {
            if !state.defer.insert(event) {
                reader.problem(format!("{path}[{n}]"), "appears twice");
            }
        }
    }
    state
}

fn kind(reader: &mut Reader, path: &str, node: &Node) -> StateKind {
    match node {
        Node::Bool(true) => StateKind::Final(Ending::Completed),
        Node::Bool(false) => StateKind::Working,
        Node::Text(text) if text == "failed" => StateKind::Final(Ending::Failed),
        Node::Null
        | Node::Int(_)
        | Node::Double(_)
        | Node::Huge(_)
        | Node::Text(_)
        | Node::List(_)
        | Node::Map(_) => {
            reader.problem(path, "must be true (completes the execution) or failed");
            StateKind::Final(Ending::Completed)
        }
    }
}

/// One map, or a list of maps that are evaluated in order.
fn alternatives(reader: &mut Reader, path: &str, node: &Node) -> Vec<Alternative> {
    match node {
        Node::List(items) => {
            if items.is_empty() {
                reader.problem(path, "has no alternative");
            }
            let read = |(n, item)| alternative(reader, &format!("{path}[{n}]"), item);
            items.iter().enumerate().map(read).collect()
        }
        Node::Null
        | Node::Bool(_)
        | Node::Int(_)
        | Node::Double(_)
        | Node::Huge(_)
        | Node::Text(_)
        | Node::Map(_) => vec![alternative(reader, path, node)],
    }
}

fn alternative(reader: &mut Reader, path: &str, node: &Node) -> Alternative {
    let mut alternative = Alternative { guard: None, to: None, set: BTreeMap::new(), actions: Vec::new() };
    let Some(fields) = reader.fields(path, node, &["if", "to", "set", "do"]) else { return alternative };
    if let Some((path, node)) = fields.get("if") {
        alternative.guard = match node {
            Node::Text(source) => Some(source.clone()),
            Node::Bool(truth) => Some(truth.to_string()),
            Node::Null | Node::Int(_) | Node::Double(_) | Node::Huge(_) | Node::List(_) | Node::Map(_) => {
                reader.problem(path, format!("must be an expression, not {}", node.kind()));
                Some("true".to_owned())
            }
        };
    }
    if let Some((path, node)) = fields.get("to") {
        alternative.to = reader.name(&path, node);
    }
    if let Some((path, node)) = fields.get("set") {
        for (key, node) in reader.map(&path, node).unwrap_or_default() {
            alternative.set.insert(key.clone(), template(reader, &join(&path, key), node));
        }
    }
    if let Some((path, node)) = fields.get("do") {
        alternative.actions = reader.names(&path, node);
        reader.limit(&path, "actions", alternative.actions.len(), MAX_ACTIONS_PER_LIST);
    }
    alternative
}

fn timers(reader: &mut Reader, path: &str, node: &Node) -> Vec<TimerSpec> {
    let items = reader.list(path, node);
    reader.limit(path, "timers", items.len(), MAX_TIMERS);
    let mut timers = Vec::new();
    for (n, item) in items.iter().enumerate() {
        let path = format!("{path}[{n}]");
        let Some(fields) = reader.fields(&path, item, &["in", "send"]) else { continue };
        let delay = match fields.get("in") {
            Some((path, node)) => reader.length(&path, node),
            None => {
                reader.problem(join(&path, "in"), "is missing");
                None
            }
        };
        let send = match fields.get("send") {
            Some((path, node)) => reader.name(&path, node),
            None => {
                reader.problem(join(&path, "send"), "is missing");
                None
            }
        };
        // The event name is checked even if the delay could not be read.
        if let Some(send) = send {
            timers.push(TimerSpec { delay: delay.unwrap_or_default(), send });
        }
    }
    timers
}

/// A value whose strings are expressions.
pub(super) fn template(reader: &mut Reader, path: &str, node: &Node) -> Template {
    match node {
        Node::Null => Template::Null,
        Node::Bool(truth) => Template::Bool(*truth),
        Node::Int(int) => Template::Int(*int),
        Node::Double(double) => Template::Double(*double),
        Node::Huge(_) => {
            super::read::refuse_huge(reader, path, node);
            Template::Null
        }
        Node::Text(source) => Template::Cel(source.clone()),
        Node::List(items) => Template::List(
            items
                .iter()
                .enumerate()
                .map(|(n, item)| template(reader, &format!("{path}[{n}]"), item))
                .collect(),
        ),
        Node::Map(_) => {
            let entries = reader.map(path, node).unwrap_or_default();
            let read = |(key, item): &(String, Node)| (key.clone(), template(reader, &join(path, key), item));
            Template::Map(entries.iter().map(read).collect())
        }
    }
}
