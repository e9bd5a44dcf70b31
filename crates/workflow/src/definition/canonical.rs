//! The canonical form of a definition: sorted keys, no whitespace, every default written out.
//!
//! The store keeps this text and the checksum covers it. Defaults are written out because a later
//! version may choose other defaults, and a stored definition must keep its meaning.

use millstream_expr::ValueTemplate;
use millstream_model::document::DocumentNode;
use millstream_model::duration;
use millstream_model::id::Name;
use sha2::{Digest, Sha256};

use super::canonical_action::action_node;
use super::model::{Definition, FinalStateKind, StateKind, StateSpec, TransitionAlternative};

impl Definition {
    /// Canonical JSON, which [`crate::definition_parser::parse()`] reads back as an equal definition.
    pub fn canonical_json(&self) -> String {
        let mut entries = vec![
            map_entry("dialect", DocumentNode::Int(Self::DIALECT)),
            map_entry("name", name_node(&self.name)),
            map_entry("mode", DocumentNode::text(self.mode.as_str())),
            map_entry("initial", name_node(&self.initial)),
            map_entry(
                "states",
                DocumentNode::Map(
                    self.states.iter().map(|(key, spec)| map_entry(key.as_str(), state_node(spec))).collect(),
                ),
            ),
            map_entry(
                "actions",
                DocumentNode::Map(
                    self.actions
                        .iter()
                        .map(|(key, spec)| map_entry(key.as_str(), action_node(spec)))
                        .collect(),
                ),
            ),
        ];
        if let Some(timeout) = self.timeout {
            entries.push(map_entry("timeout", DocumentNode::text(duration::format_duration(timeout))));
        }
        if let Some(source) = &self.correlate {
            entries.push(map_entry("correlate", DocumentNode::text(source)));
        }
        let context =
            self.context.iter().filter_map(|(key, raw)| raw.decode().ok().map(|node| map_entry(key, node)));
        entries.push(map_entry("context", DocumentNode::Map(context.collect())));
        DocumentNode::Map(entries).to_json()
    }

    /// SHA-256 of [`Definition::canonical_json`], in hex.
    pub fn checksum(&self) -> String {
        let digest = Sha256::digest(self.canonical_json().as_bytes());
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

pub(super) fn map_entry(key: &str, node: DocumentNode) -> (String, DocumentNode) {
    (key.to_owned(), node)
}

pub(super) fn name_node(name: &Name) -> DocumentNode {
    DocumentNode::text(name.as_str())
}

pub(super) fn name_list_node<'a>(names: impl IntoIterator<Item = &'a Name>) -> DocumentNode {
    DocumentNode::List(names.into_iter().map(name_node).collect())
}

fn state_node(spec: &StateSpec) -> DocumentNode {
    let mut entries = Vec::new();
    match spec.kind {
        StateKind::Working => {}
        StateKind::Final(FinalStateKind::Completed) => {
            entries.push(map_entry("final", DocumentNode::Bool(true)))
        }
        StateKind::Final(FinalStateKind::Failed) => {
            entries.push(map_entry("final", DocumentNode::text("failed")))
        }
    }
    if !spec.on.is_empty() {
        let on = spec.on.iter().map(|(event, alternatives)| {
            map_entry(event.as_str(), DocumentNode::List(alternatives.iter().map(alternative_node).collect()))
        });
        entries.push(map_entry("on", DocumentNode::Map(on.collect())));
    }
    if !spec.after.is_empty() {
        let after = spec.after.iter().map(|timer| {
            let delay = DocumentNode::text(duration::format_duration(timer.delay));
            DocumentNode::Map(vec![map_entry("in", delay), map_entry("send", name_node(&timer.send))])
        });
        entries.push(map_entry("after", DocumentNode::List(after.collect())));
    }
    if !spec.defer.is_empty() {
        entries.push(map_entry("defer", name_list_node(&spec.defer)));
    }
    DocumentNode::Map(entries)
}

fn alternative_node(alternative: &TransitionAlternative) -> DocumentNode {
    let mut entries = Vec::new();
    if let Some(guard) = &alternative.guard {
        entries.push(map_entry("if", DocumentNode::text(guard)));
    }
    if let Some(to) = &alternative.to {
        entries.push(map_entry("to", name_node(to)));
    }
    if !alternative.set.is_empty() {
        let set = alternative.set.iter().map(|(key, value)| map_entry(key, template_node(value)));
        entries.push(map_entry("set", DocumentNode::Map(set.collect())));
    }
    if !alternative.actions.is_empty() {
        entries.push(map_entry("do", name_list_node(&alternative.actions)));
    }
    DocumentNode::Map(entries)
}

pub(super) fn template_node(value: &ValueTemplate) -> DocumentNode {
    match value {
        ValueTemplate::Null => DocumentNode::Null,
        ValueTemplate::Bool(truth) => DocumentNode::Bool(*truth),
        ValueTemplate::Int(int) => DocumentNode::Int(*int),
        ValueTemplate::Double(double) => DocumentNode::Double(*double),
        ValueTemplate::Cel(source) => DocumentNode::text(source),
        ValueTemplate::List(items) => DocumentNode::List(items.iter().map(template_node).collect()),
        ValueTemplate::Map(entries) => {
            DocumentNode::Map(entries.iter().map(|(key, item)| map_entry(key, template_node(item))).collect())
        }
    }
}
