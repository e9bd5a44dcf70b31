//! Reads what users write in files: a graph, or a patch of one, in YAML or JSON.
//!
//! YAML is converted to JSON first, so both share one set of field names. A document that does not have the
//! shape of a graph yields one problem with its path; [`validate`](super::validate) checks the rest.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::spec::{GraphSpec, NodeEdit};
use crate::definition::{Format, as_json};
use crate::problem::{Problem, Problems};

/// A patch as written in a file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WrittenPatch {
    /// The revision that the edits were written for; a request may supply it separately.
    #[serde(default)]
    pub expected_revision: Option<u32>,
    pub edits: Vec<NodeEdit>,
}

/// Reads a graph without validating it.
pub fn read(source: &str, format: Format) -> Result<GraphSpec, Problems> {
    decode(source, format)
}

/// Reads a patch without validating it.
pub fn read_patch(source: &str, format: Format) -> Result<WrittenPatch, Problems> {
    decode(source, format)
}

fn decode<T: DeserializeOwned>(source: &str, format: Format) -> Result<T, Problems> {
    let json = as_json(source, format)?;
    let mut reader = serde_json::Deserializer::from_str(json.as_str());
    serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        let path = if path == "." { String::new() } else { path };
        Problem::new(path, in_plain_words(&error.into_inner().to_string())).into()
    })
}

/// Removes line and column, which refer to the converted JSON (the path locates the problem), and the names
/// of Rust types.
fn in_plain_words(message: &str) -> String {
    let message = message.rsplit_once(" at line ").map_or(message, |(message, _)| message);
    match message.split_once(", expected struct ") {
        Some((what, _)) => format!("{what}, expected an object"),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(source: &str) -> String {
        read(source, Format::Yaml).unwrap_err().to_string()
    }

    #[test]
    fn yaml_and_json_say_the_same() {
        let yaml = "
            name: two
            input: { depth: 3, big: 12345678901234567 }
            options: { timeout: 1h, node: { retry: { attempts: 5 } } }
            nodes:
              - id: a
              - { id: b, parents: [a, { node: c, if: results.c.ok }], is_final: true }
              - { id: c, fan_out: { over: input.list } }
        ";
        let json = r#"{"name":"two","input":{"big":12345678901234567,"depth":3},
            "options":{"timeout":"1h","node":{"retry":{"attempts":5}}},"nodes":[{"id":"a"},
            {"id":"b","parents":["a",{"node":"c","if":"results.c.ok"}],"is_final":true},
            {"id":"c","fan_out":{"over":"input.list"}}]}"#;
        let graph = read(yaml, Format::Yaml).unwrap();
        assert_eq!(graph, read(json, Format::Json).unwrap());
        let again = serde_json::to_string(&graph).unwrap();
        assert_eq!(read(&again, Format::Json).unwrap(), graph);
    }

    #[test]
    fn what_does_not_fit_is_named_with_its_place() {
        assert_eq!(
            told("{ name: x, nodes: [{ id: a, task: { gaol: x } }] }"),
            "nodes[0].task.gaol: unknown field `gaol`, expected one of `goal`, `dependencies`, `subtasks`"
        );
        assert_eq!(told("{ name: x, nodes: [{ id: a }, { id: B }] }").split(':').next(), Some("nodes[1].id"));
        assert_eq!(
            told("{ name: x, nodes: [{ id: a, parents: [b, { nod: c }] }] }"),
            r#"nodes[0].parents[1]: must be the id of a node, or {"node": ID, "if": CONDITION}"#
        );
        assert_eq!(
            told("{ name: x, nodes: [{ id: a, graph: { name: y, nodes: [{ id: 7 }] } }] }"),
            "nodes[0].graph.nodes[0].id: invalid type: integer `7`, expected a string"
        );
        assert_eq!(told("[]"), "invalid length 0, expected an object");
        assert!(told("name: [").starts_with("not valid YAML: "));
        assert!(told("{ name: x, name: y, nodes: [] }").starts_with("not valid YAML: "));
    }

    #[test]
    fn a_patch_is_a_list_of_edits_with_or_without_a_revision() {
        let patch = "
            expected_revision: 3
            edits:
              - insert: { id: c, parents: [a] }
              - update: { id: b }
              - delete: d
        ";
        let patch = read_patch(patch, Format::Yaml).unwrap();
        assert_eq!((patch.expected_revision, patch.edits.len()), (Some(3), 3));
        let patch = read_patch("{ edits: [{ delete: d }] }", Format::Yaml).unwrap();
        assert_eq!(patch.expected_revision, None);
        let told = read_patch("{ edits: [{ insert: { id: c, parent: a } }] }", Format::Yaml).unwrap_err();
        assert!(told.to_string().starts_with("edits[0].insert.parent: unknown field"), "{told}");
    }
}
