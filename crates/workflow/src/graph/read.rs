//! Reads what users write in files: a graph, or a patch of one, in YAML or JSON.
//!
//! YAML is converted to JSON first, so both share one set of field names. A document that does not have the
//! shape of a graph yields one problem with its path; [`validate`](super::validate_graph) checks the rest.

use millstream_model::document::{SourceFormat, as_json};
use millstream_model::problem::{ValidationProblem, ValidationProblems};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::spec::{GraphSpec, NodeEdit};

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
pub fn read_graph(source: &str, format: SourceFormat) -> Result<GraphSpec, ValidationProblems> {
    decode_document(source, format)
}

/// Reads a patch without validating it.
pub fn read_patch(source: &str, format: SourceFormat) -> Result<WrittenPatch, ValidationProblems> {
    decode_document(source, format)
}

fn decode_document<T: DeserializeOwned>(source: &str, format: SourceFormat) -> Result<T, ValidationProblems> {
    let json = as_json(source, format)?;
    let mut reader = serde_json::Deserializer::from_str(json.as_str());
    serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        let path = if path == "." { String::new() } else { path };
        ValidationProblem::new(path, plain_message(&error.into_inner().to_string())).into()
    })
}

/// Removes line and column, which refer to the converted JSON (the path locates the problem), and the names
/// of Rust types.
fn plain_message(message: &str) -> String {
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
        read_graph(source, SourceFormat::Yaml).unwrap_err().to_string()
    }

    #[test]
    fn yaml_and_json_graphs_are_equal() {
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
        let graph = read_graph(yaml, SourceFormat::Yaml).unwrap();
        assert_eq!(graph, read_graph(json, SourceFormat::Json).unwrap());
        let again = serde_json::to_string(&graph).unwrap();
        assert_eq!(read_graph(&again, SourceFormat::Json).unwrap(), graph);
    }

    #[test]
    fn misshapen_graph_names_its_path() {
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
    fn patch_revision_is_optional() {
        let patch = "
            expected_revision: 3
            edits:
              - insert: { id: c, parents: [a] }
              - update: { id: b }
              - delete: d
        ";
        let patch = read_patch(patch, SourceFormat::Yaml).unwrap();
        assert_eq!((patch.expected_revision, patch.edits.len()), (Some(3), 3));
        let patch = read_patch("{ edits: [{ delete: d }] }", SourceFormat::Yaml).unwrap();
        assert_eq!(patch.expected_revision, None);
        let told =
            read_patch("{ edits: [{ insert: { id: c, parent: a } }] }", SourceFormat::Yaml).unwrap_err();
        assert!(told.to_string().starts_with("edits[0].insert.parent: unknown field"), "{told}");
    }
}
