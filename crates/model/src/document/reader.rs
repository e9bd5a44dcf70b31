//! A document reader that collects all problems instead of stopping at the first one.

use std::collections::BTreeSet;
use std::time::Duration;

use super::node::DocumentNode;
use crate::duration;
use crate::id::Name;
use crate::problem::ValidationProblem;
use crate::suggest::did_you_mean;

/// Collects the problems found while a tree is read.
#[derive(Debug, Default)]
pub struct DocumentReader {
    pub problems: Vec<ValidationProblem>,
}

/// A map with a fixed set of fields.
#[derive(Debug)]
pub struct DocumentFields<'n> {
    path: String,
    entries: &'n [(String, DocumentNode)],
}

impl<'n> DocumentFields<'n> {
    /// The field's path and value, if present.
    pub fn get(&self, field: &str) -> Option<(String, &'n DocumentNode)> {
        self.entries
            .iter()
            .find(|(key, _)| key == field)
            .map(|(_, node)| (join_path(&self.path, field), node))
    }
}

pub fn join_path(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

impl DocumentReader {
    pub fn add_problem(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.problems.push(ValidationProblem::new(path, message));
    }

    fn report_unexpected(&mut self, path: &str, wanted: &str, found: &DocumentNode) {
        self.add_problem(path, format!("must be {wanted}, not {}", found.kind()));
    }

    /// A map with known fields; unknown ones are reported.
    pub fn read_fields<'n>(
        &mut self,
        path: &str,
        node: &'n DocumentNode,
        known: &[&str],
    ) -> Option<DocumentFields<'n>> {
        let entries = self.read_map(path, node)?;
        for (key, _) in entries {
            if !known.contains(&key.as_str()) {
                let hint = did_you_mean(key, known.iter().copied());
                let hint =
                    if hint.is_empty() { format!(": known fields are {}", known.join(", ")) } else { hint };
                self.add_problem(join_path(path, key), format!("unknown field{hint}"));
            }
        }
        Some(DocumentFields { path: path.to_owned(), entries })
    }

    /// A map with user-defined keys; duplicates are reported.
    pub fn read_map<'n>(
        &mut self,
        path: &str,
        node: &'n DocumentNode,
    ) -> Option<&'n [(String, DocumentNode)]> {
        let DocumentNode::Map(entries) = node else {
            self.report_unexpected(path, "a map", node);
            return None;
        };
        let mut seen = BTreeSet::new();
        for (key, _) in entries {
            if !seen.insert(key) {
                self.add_problem(join_path(path, key), "appears twice");
            }
        }
        Some(entries)
    }

    pub fn read_list<'n>(&mut self, path: &str, node: &'n DocumentNode) -> &'n [DocumentNode] {
        let DocumentNode::List(items) = node else {
            self.report_unexpected(path, "a list", node);
            return &[];
        };
        items
    }

    pub fn read_text<'n>(&mut self, path: &str, node: &'n DocumentNode) -> Option<&'n str> {
        let DocumentNode::Text(text) = node else {
            self.report_unexpected(path, "a string", node);
            return None;
        };
        Some(text)
    }

    /// A name where it is declared.
    pub fn parse_declared_name(&mut self, path: &str, text: &str) -> Option<Name> {
        match Name::parse(text) {
            Ok(name) if name.is_reserved() => {
                self.add_problem(
                    path,
                    format!("names that start with {:?} are reserved", Name::RESERVED_PREFIX),
                );
                None
            }
            Ok(name) => Some(name),
            Err(error) => {
                self.add_problem(path, format!("the name {error}"));
                None
            }
        }
    }

    /// A name where it is used.
    pub fn read_name(&mut self, path: &str, node: &DocumentNode) -> Option<Name> {
        let text = self.read_text(path, node)?;
        self.parse_declared_name(path, text)
    }

    pub fn read_names(&mut self, path: &str, node: &DocumentNode) -> Vec<Name> {
        let items = self.read_list(path, node);
        items
            .iter()
            .enumerate()
            .filter_map(|(n, item)| self.read_name(&format!("{path}[{n}]"), item))
            .collect()
    }

    pub fn read_duration(&mut self, path: &str, node: &DocumentNode) -> Option<Duration> {
        let DocumentNode::Text(text) = node else {
            self.report_unexpected(path, "a duration like 200ms, 30s or 1h30m", node);
            return None;
        };
        duration::parse(text).map_err(|error| self.add_problem(path, error.to_string())).ok()
    }

    pub fn read_integer(&mut self, path: &str, node: &DocumentNode) -> Option<i64> {
        let DocumentNode::Int(int) = node else {
            self.report_unexpected(path, "a whole number", node);
            return None;
        };
        Some(*int)
    }

    pub fn check_limit(&mut self, path: &str, what: &str, count: usize, limit: usize) {
        if count > limit {
            self.add_problem(path, format!("has {count} {what}, at most {limit} are allowed"));
        }
    }
}

/// Reports integers that do not fit 64 bits, and duplicate keys, anywhere in literal data.
pub fn check_integers(reader: &mut DocumentReader, path: &str, node: &DocumentNode) {
    match node {
        DocumentNode::Huge(digits) => {
            reader.add_problem(path, format!("{digits} does not fit a 64-bit integer: write it as a string"));
        }
        DocumentNode::List(items) => {
            for (n, item) in items.iter().enumerate() {
                check_integers(reader, &format!("{path}[{n}]"), item);
            }
        }
        DocumentNode::Map(_) => {
            for (key, item) in reader.read_map(path, node).unwrap_or_default() {
                check_integers(reader, &join_path(path, key), item);
            }
        }
        DocumentNode::Null
        | DocumentNode::Bool(_)
        | DocumentNode::Int(_)
        | DocumentNode::Double(_)
        | DocumentNode::Text(_) => {}
    }
}
