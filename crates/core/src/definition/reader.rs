//! A document reader that collects all problems instead of stopping at the first one.

use std::collections::BTreeSet;
use std::time::Duration;

use super::document::Node;

use super::suggest::did_you_mean;
use crate::duration;
use crate::id::Name;
use crate::problem::Problem;

/// Collects the problems found while a tree is read.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    pub(crate) problems: Vec<Problem>,
}

/// A map with a fixed set of fields.
#[derive(Debug)]
pub(crate) struct Fields<'n> {
    path: String,
    entries: &'n [(String, Node)],
}

impl<'n> Fields<'n> {
    /// The field's path and value, if present.
    pub(crate) fn get(&self, field: &str) -> Option<(String, &'n Node)> {
        self.entries.iter().find(|(key, _)| key == field).map(|(_, node)| (join(&self.path, field), node))
    }
}

pub(crate) fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

impl Reader {
    pub(crate) fn problem(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.problems.push(Problem::new(path, message));
    }

    fn expected(&mut self, path: &str, wanted: &str, found: &Node) {
        self.problem(path, format!("must be {wanted}, not {}", found.kind()));
    }

    /// A map with known fields; unknown ones are reported.
    pub(crate) fn fields<'n>(&mut self, path: &str, node: &'n Node, known: &[&str]) -> Option<Fields<'n>> {
        let entries = self.map(path, node)?;
        for (key, _) in entries {
            if !known.contains(&key.as_str()) {
                let hint = did_you_mean(key, known.iter().copied());
                let hint =
                    if hint.is_empty() { format!(": known fields are {}", known.join(", ")) } else { hint };
                self.problem(join(path, key), format!("unknown field{hint}"));
            }
        }
        Some(Fields { path: path.to_owned(), entries })
    }

    /// A map with user-defined keys; duplicates are reported.
    pub(crate) fn map<'n>(&mut self, path: &str, node: &'n Node) -> Option<&'n [(String, Node)]> {
        let Node::Map(entries) = node else {
            self.expected(path, "a map", node);
            return None;
        };
        let mut seen = BTreeSet::new();
        for (key, _) in entries {
            if !seen.insert(key) {
                self.problem(join(path, key), "appears twice");
            }
        }
        Some(entries)
    }

    pub(crate) fn list<'n>(&mut self, path: &str, node: &'n Node) -> &'n [Node] {
        let Node::List(items) = node else {
            self.expected(path, "a list", node);
            return &[];
        };
        items
    }

    pub(crate) fn text<'n>(&mut self, path: &str, node: &'n Node) -> Option<&'n str> {
        let Node::Text(text) = node else {
            self.expected(path, "a string", node);
            return None;
        };
        Some(text)
    }

    /// A name where it is declared.
    pub(crate) fn declared(&mut self, path: &str, text: &str) -> Option<Name> {
        match Name::parse(text) {
            Ok(name) if name.is_reserved() => {
                self.problem(path, format!("names that start with {:?} are reserved", Name::RESERVED_PREFIX));
                None
            }
            Ok(name) => Some(name),
            Err(error) => {
                self.problem(path, format!("the name {error}"));
                None
            }
        }
    }

    /// A name where it is used.
    pub(crate) fn name(&mut self, path: &str, node: &Node) -> Option<Name> {
        let text = self.text(path, node)?;
        self.declared(path, text)
    }

    pub(crate) fn names(&mut self, path: &str, node: &Node) -> Vec<Name> {
        let items = self.list(path, node);
        items.iter().enumerate().filter_map(|(n, item)| self.name(&format!("{path}[{n}]"), item)).collect()
    }

    pub(crate) fn length(&mut self, path: &str, node: &Node) -> Option<Duration> {
        let Node::Text(text) = node else {
            self.expected(path, "a duration like 200ms, 30s or 1h30m", node);
            return None;
        };
        duration::parse(text).map_err(|error| self.problem(path, error.to_string())).ok()
    }

    pub(crate) fn int(&mut self, path: &str, node: &Node) -> Option<i64> {
        let Node::Int(int) = node else {
            self.expected(path, "a whole number", node);
            return None;
        };
        Some(*int)
    }

    pub(crate) fn limit(&mut self, path: &str, what: &str, count: usize, limit: usize) {
        if count > limit {
            self.problem(path, format!("has {count} {what}, at most {limit} are allowed"));
        }
    }
}
