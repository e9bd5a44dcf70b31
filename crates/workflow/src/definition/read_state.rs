//! Reads states, their events and timers from the document tree.

use std::collections::{BTreeMap, BTreeSet};

use millstream_expr::ValueTemplate;
use millstream_model::document::{DocumentNode, DocumentReader, check_integers, join_path};

use super::limits::{MAX_ACTIONS_PER_LIST, MAX_TIMERS};
use super::model::{FinalStateKind, StateKind, StateSpec, TimerSpec, TransitionAlternative};

pub(super) fn read_state(reader: &mut DocumentReader, path: &str, node: &DocumentNode) -> StateSpec {
    let mut state = StateSpec {
        kind: StateKind::Working,
        on: BTreeMap::new(),
        after: Vec::new(),
        defer: BTreeSet::new(),
    };
    let Some(fields) = reader.read_fields(path, node, &["on", "after", "defer", "final"]) else {
        return state;
    };
    if let Some((path, node)) = fields.get("final") {
        state.kind = read_state_kind(reader, &path, node);
    }
    if let Some((path, node)) = fields.get("on") {
        for (key, node) in reader.read_map(&path, node).unwrap_or_default() {
            let path = join_path(&path, key);
            let alternatives = read_alternatives(reader, &path, node);
            if let Some(event) = reader.parse_declared_name(&path, key) {
                state.on.insert(event, alternatives);
            }
        }
    }
    if let Some((path, node)) = fields.get("after") {
        state.after = read_timers(reader, &path, node);
    }
    if let Some((path, node)) = fields.get("defer") {
        for (n, event) in reader.read_names(&path, node).into_iter().enumerate() {
            if !state.defer.insert(event) {
                reader.add_problem(format!("{path}[{n}]"), "appears twice");
            }
        }
    }
    state
}

fn read_state_kind(reader: &mut DocumentReader, path: &str, node: &DocumentNode) -> StateKind {
    match node {
        DocumentNode::Bool(true) => StateKind::Final(FinalStateKind::Completed),
        DocumentNode::Bool(false) => StateKind::Working,
        DocumentNode::Text(text) if text == "failed" => StateKind::Final(FinalStateKind::Failed),
        DocumentNode::Null
        | DocumentNode::Int(_)
        | DocumentNode::Double(_)
        | DocumentNode::Huge(_)
        | DocumentNode::Text(_)
        | DocumentNode::List(_)
        | DocumentNode::Map(_) => {
            reader.add_problem(path, "must be true (completes the execution) or failed");
            StateKind::Final(FinalStateKind::Completed)
        }
    }
}

/// One map, or a list of maps that are evaluated in order.
fn read_alternatives(
    reader: &mut DocumentReader,
    path: &str,
    node: &DocumentNode,
) -> Vec<TransitionAlternative> {
    match node {
        DocumentNode::List(items) => {
            if items.is_empty() {
                reader.add_problem(path, "has no alternative");
            }
            let read = |(n, item)| read_alternative(reader, &format!("{path}[{n}]"), item);
            items.iter().enumerate().map(read).collect()
        }
        DocumentNode::Null
        | DocumentNode::Bool(_)
        | DocumentNode::Int(_)
        | DocumentNode::Double(_)
        | DocumentNode::Huge(_)
        | DocumentNode::Text(_)
        | DocumentNode::Map(_) => vec![read_alternative(reader, path, node)],
    }
}

fn read_alternative(reader: &mut DocumentReader, path: &str, node: &DocumentNode) -> TransitionAlternative {
    let mut alternative =
        TransitionAlternative { guard: None, to: None, set: BTreeMap::new(), actions: Vec::new() };
    let Some(fields) = reader.read_fields(path, node, &["if", "to", "set", "do"]) else { return alternative };
    if let Some((path, node)) = fields.get("if") {
        alternative.guard = match node {
            DocumentNode::Text(source) => Some(source.clone()),
            DocumentNode::Bool(truth) => Some(truth.to_string()),
            DocumentNode::Null
            | DocumentNode::Int(_)
            | DocumentNode::Double(_)
            | DocumentNode::Huge(_)
            | DocumentNode::List(_)
            | DocumentNode::Map(_) => {
                reader.add_problem(path, format!("must be an expression, not {}", node.kind()));
                Some("true".to_owned())
            }
        };
    }
    if let Some((path, node)) = fields.get("to") {
        alternative.to = reader.read_name(&path, node);
    }
    if let Some((path, node)) = fields.get("set") {
        for (key, node) in reader.read_map(&path, node).unwrap_or_default() {
            alternative.set.insert(key.clone(), read_template(reader, &join_path(&path, key), node));
        }
    }
    if let Some((path, node)) = fields.get("do") {
        alternative.actions = reader.read_names(&path, node);
        reader.check_limit(&path, "actions", alternative.actions.len(), MAX_ACTIONS_PER_LIST);
    }
    alternative
}

fn read_timers(reader: &mut DocumentReader, path: &str, node: &DocumentNode) -> Vec<TimerSpec> {
    let items = reader.read_list(path, node);
    reader.check_limit(path, "timers", items.len(), MAX_TIMERS);
    let mut timers = Vec::new();
    for (n, item) in items.iter().enumerate() {
        let path = format!("{path}[{n}]");
        let Some(fields) = reader.read_fields(&path, item, &["in", "send"]) else { continue };
        let delay = match fields.get("in") {
            Some((path, node)) => reader.read_duration(&path, node),
            None => {
                reader.add_problem(join_path(&path, "in"), "is missing");
                None
            }
        };
        let send = match fields.get("send") {
            Some((path, node)) => reader.read_name(&path, node),
            None => {
                reader.add_problem(join_path(&path, "send"), "is missing");
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
pub(super) fn read_template(reader: &mut DocumentReader, path: &str, node: &DocumentNode) -> ValueTemplate {
    match node {
        DocumentNode::Null => ValueTemplate::Null,
        DocumentNode::Bool(truth) => ValueTemplate::Bool(*truth),
        DocumentNode::Int(int) => ValueTemplate::Int(*int),
        DocumentNode::Double(double) => ValueTemplate::Double(*double),
        DocumentNode::Huge(_) => {
            check_integers(reader, path, node);
            ValueTemplate::Null
        }
        DocumentNode::Text(source) => ValueTemplate::Cel(source.clone()),
        DocumentNode::List(items) => ValueTemplate::List(
            items
                .iter()
                .enumerate()
                .map(|(n, item)| read_template(reader, &format!("{path}[{n}]"), item))
                .collect(),
        ),
        DocumentNode::Map(_) => {
            let entries = reader.read_map(path, node).unwrap_or_default();
            let read = |(key, item): &(String, DocumentNode)| {
                (key.clone(), read_template(reader, &join_path(path, key), item))
            };
            ValueTemplate::Map(entries.iter().map(read).collect())
        }
    }
}
