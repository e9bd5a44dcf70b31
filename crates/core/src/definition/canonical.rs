//! The canonical form of a definition: sorted keys, no whitespace, every default written out.
//!
//! The store keeps this text and the checksum covers it. Defaults are written out because a later
//! version may choose other defaults, and a stored definition must keep its meaning.

use sha2::{Digest, Sha256};

use super::canonical_action::action;
use super::document::Node;
use super::model::{Alternative, Definition, Ending, StateKind, StateSpec};
use super::template::Template;
use crate::duration;
use crate::id::Name;

impl Definition {
    /// Canonical JSON, which [`super::parse()`] reads back as an equal definition.
    pub fn canonical_json(&self) -> String {
        let mut entries = vec![
            entry("dialect", Node::Int(Self::DIALECT)),
            entry("name", name(&self.name)),
            entry("mode", Node::text(self.mode.as_str())),
            entry("initial", name(&self.initial)),
            entry(
                "states",
                Node::Map(self.states.iter().map(|(key, spec)| entry(key.as_str(), state(spec))).collect()),
            ),
            entry(
                "actions",
                Node::Map(self.actions.iter().map(|(key, spec)| entry(key.as_str(), action(spec))).collect()),
            ),
        ];
        if let Some(timeout) = self.timeout {
            entries.push(entry("timeout", Node::text(duration::format(timeout))));
        }
        if let Some(source) = &self.correlate {
            entries.push(entry("correlate", Node::text(source)));
        }
        let context =
            self.context.iter().filter_map(|(key, raw)| raw.decode().ok().map(|node| entry(key, node)));
        entries.push(entry("context", Node::Map(context.collect())));
        Node::Map(entries).to_json()
    }

    /// SHA-256 of [`Definition::canonical_json`], in hex.
    pub fn checksum(&self) -> String {
        let digest = Sha256::digest(self.canonical_json().as_bytes());
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

pub(super) fn entry(key: &str, node: Node) -> (String, Node) {
    (key.to_owned(), node)
}

pub(super) fn name(name: &Name) -> Node {
    Node::text(name.as_str())
}

pub(super) fn names<'a>(names: impl IntoIterator<Item = &'a Name>) -> Node {
    Node::List(names.into_iter().map(name).collect())
}

fn state(spec: &StateSpec) -> Node {
    let mut entries = Vec::new();
    match spec.kind {
        StateKind::Working => {}
        StateKind::Final(Ending::Completed) => entries.push(entry("final", Node::Bool(true))),
        StateKind::Final(Ending::Failed) => entries.push(entry("final", Node::text("failed"))),
    }
    if !spec.on.is_empty() {
        let on = spec.on.iter().map(|(event, alternatives)| {
            entry(event.as_str(), Node::List(alternatives.iter().map(alternative).collect()))
        });
        entries.push(entry("on", Node::Map(on.collect())));
    }
    if !spec.after.is_empty() {
        let after = spec.after.iter().map(|timer| {
            let delay = Node::text(duration::format(timer.delay));
            Node::Map(vec![entry("in", delay), entry("send", name(&timer.send))])
        });
        entries.push(entry("after", Node::List(after.collect())));
    }
    if !spec.defer.is_empty() {
        entries.push(entry("defer", names(&spec.defer)));
    }
    Node::Map(entries)
}

fn alternative(alternative: &Alternative) -> Node {
    let mut entries = Vec::new();
    if let Some(guard) = &alternative.guard {
        entries.push(entry("if", Node::text(guard)));
    }
    if let Some(to) = &alternative.to {
        entries.push(entry("to", name(to)));
    }
    if !alternative.set.is_empty() {
        let set = alternative.set.iter().map(|(key, value)| entry(key, template(value)));
        entries.push(entry("set", Node::Map(set.collect())));
    }
    if !alternative.actions.is_empty() {
        entries.push(entry("do", names(&alternative.actions)));
    }
    Node::Map(entries)
}

pub(super) fn template(value: &Template) -> Node {
    match value {
        Template::Null => Node::Null,
        Template::Bool(truth) => Node::Bool(*truth),
        Template::Int(int) => Node::Int(*int),
        Template::Double(double) => Node::Double(*double),
        Template::Cel(source) => Node::text(source),
        Template::List(items) => Node::List(items.iter().map(template).collect()),
        Template::Map(entries) => {
            Node::Map(entries.iter().map(|(key, item)| entry(key, template(item))).collect())
        }
    }
}
