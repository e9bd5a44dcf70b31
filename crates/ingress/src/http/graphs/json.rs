//! Strict decoding of the JSON that describes graphs; every fault carries its path.

use millstream_core::graph::{GraphSpec, NodeEdit, NodeSpec};
use millstream_core::problem::Problem as Fault;
use millstream_core::raw::RawJson;
use serde::de::DeserializeOwned;

use crate::edited::without_place;

/// Decodes the text at the path `at` of the request. The text is known to be valid JSON.
pub(in crate::http) fn decode<T: DeserializeOwned>(text: &str, at: &str) -> Result<T, Vec<Fault>> {
    let mut reader = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = match (at, error.path().to_string().as_str()) {
            (at, ".") => at.to_owned(),
            ("", path) => path.to_owned(),
            (at, path) if path.starts_with('[') => format!("{at}{path}"),
            (at, path) => format!("{at}.{path}"),
        };
        vec![Fault::new(path, in_plain_words(without_place(error.inner())))]
    })
}

/// Replaces Rust type names in decoding errors: they mean nothing to authors of JSON.
fn in_plain_words(message: String) -> String {
    if message.contains("untagged enum EdgeForm") {
        return "must be the id of a node, or {\"node\": ID, \"if\": CONDITION}".to_owned();
    }
    match message.split_once(", expected ") {
        Some((what, expected)) if expected.starts_with("struct ") => format!("{what}, expected an object"),
        Some((what, expected)) if expected.starts_with("enum ") => {
            format!("{what}, expected an object with one field")
        }
        Some(_) | None => message,
    }
}

/// Rejects user values that exceed the nesting limit.
pub(super) fn too_deep(spec: &GraphSpec) -> Vec<Fault> {
    let mut faults = Vec::new();
    in_graph(spec, "", &mut faults);
    faults
}

pub(super) fn too_deep_in_edits(edits: &[NodeEdit]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (at, edit) in edits.iter().enumerate() {
        match edit {
            NodeEdit::Insert(node) => in_node(node, &format!("edits[{at}].insert."), &mut faults),
            NodeEdit::Update(node) => in_node(node, &format!("edits[{at}].update."), &mut faults),
            NodeEdit::Delete(_) => {}
        }
    }
    faults
}

fn in_graph(spec: &GraphSpec, prefix: &str, faults: &mut Vec<Fault>) {
    check(&spec.input, || format!("{prefix}input"), faults);
    for (at, node) in spec.nodes.iter().enumerate() {
        if node.graph.is_some() || node.execution.is_some() {
            in_node(node, &format!("{prefix}nodes[{at}]."), faults);
        }
    }
}

fn in_node(node: &NodeSpec, prefix: &str, faults: &mut Vec<Fault>) {
    if let Some(graph) = &node.graph {
        in_graph(graph, &format!("{prefix}graph."), faults);
    }
    if let Some(execution) = &node.execution {
        check(&execution.input, || format!("{prefix}execution.input"), faults);
    }
}

fn check(value: &RawJson, path: impl FnOnce() -> String, faults: &mut Vec<Fault>) {
    if let Err(error) = value.within_depth() {
        faults.push(Fault::new(path(), error.to_string()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told<T: DeserializeOwned + std::fmt::Debug>(text: &str) -> String {
        decode::<T>(text, "").unwrap_err()[0].to_string()
    }

    #[test]
    fn what_is_wrong_is_told_with_its_path_and_without_our_names() {
        for (text, wrong) in [
            ("7", "invalid type: integer `7`, expected an object"),
            (r#"{"name":"a","nodes":7}"#, "nodes: invalid type: integer `7`, expected a sequence"),
            (r#"{"name":"a","nodes":[7]}"#, "nodes[0]: invalid type: integer `7`, expected an object"),
            (
                r#"{"name":"a","nodes":[{"id":"a","parents":[7]}]}"#,
                "nodes[0].parents[0]: must be the id of a node, or {\"node\": ID, \"if\": CONDITION}",
            ),
        ] {
            assert_eq!(told::<GraphSpec>(text), wrong, "{text}");
        }
        let faults = decode::<Vec<NodeEdit>>(r#"[{"insert":{"id":"A"}}]"#, "edits").unwrap_err();
        assert!(faults[0].path.starts_with("edits[0].insert"), "{faults:?}");
    }
}
