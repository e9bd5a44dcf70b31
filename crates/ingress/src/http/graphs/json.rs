//! Strict decoding of the JSON that describes graphs; every fault carries its path.

use millstream_model::problem::ValidationProblem as Fault;
use millstream_model::raw::RawJson;
use millstream_workflow::graph::{GraphSpec, NodeEdit, NodeSpec};
use serde::de::DeserializeOwned;

use crate::http::edited_input::without_place;

/// Decodes the text at the path `at` of the request. The text is known to be valid JSON.
pub(in crate::http) fn decode_json<T: DeserializeOwned>(text: &str, at: &str) -> Result<T, Vec<Fault>> {
    let mut reader = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = match (at, error.path().to_string().as_str()) {
            (at, ".") => at.to_owned(),
            ("", path) => path.to_owned(),
            (at, path) if path.starts_with('[') => format!("{at}{path}"),
            (at, path) => format!("{at}.{path}"),
        };
        vec![Fault::new(path, hide_type_names(without_place(error.inner())))]
    })
}

/// Replaces Rust type names in decoding errors: they mean nothing to authors of JSON.
fn hide_type_names(message: String) -> String {
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
pub(super) fn graph_depth_faults(spec: &GraphSpec) -> Vec<Fault> {
    let mut faults = Vec::new();
    check_graph_depth(spec, "", &mut faults);
    faults
}

pub(super) fn edit_depth_faults(edits: &[NodeEdit]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (at, edit) in edits.iter().enumerate() {
        match edit {
            NodeEdit::Insert(node) => check_node_depth(node, &format!("edits[{at}].insert."), &mut faults),
            NodeEdit::Update(node) => check_node_depth(node, &format!("edits[{at}].update."), &mut faults),
            NodeEdit::Delete(_) => {}
        }
    }
    faults
}

fn check_graph_depth(spec: &GraphSpec, prefix: &str, faults: &mut Vec<Fault>) {
    check_value_depth(&spec.input, || format!("{prefix}input"), faults);
    for (at, node) in spec.nodes.iter().enumerate() {
        if node.graph.is_some() || node.execution.is_some() {
            check_node_depth(node, &format!("{prefix}nodes[{at}]."), faults);
        }
    }
}

fn check_node_depth(node: &NodeSpec, prefix: &str, faults: &mut Vec<Fault>) {
    if let Some(graph) = &node.graph {
        check_graph_depth(graph, &format!("{prefix}graph."), faults);
    }
    if let Some(execution) = &node.execution {
        check_value_depth(&execution.input, || format!("{prefix}execution.input"), faults);
    }
}

fn check_value_depth(value: &RawJson, path: impl FnOnce() -> String, faults: &mut Vec<Fault>) {
    if let Err(error) = value.check_nesting() {
        faults.push(Fault::new(path(), error.to_string()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode_error<T: DeserializeOwned + std::fmt::Debug>(text: &str) -> String {
        decode_json::<T>(text, "").unwrap_err()[0].to_string()
    }

    #[test]
    fn graph_fault_has_path_without_type_names() {
        for (text, wrong) in [
            ("7", "invalid type: integer `7`, expected an object"),
            (r#"{"name":"a","nodes":7}"#, "nodes: invalid type: integer `7`, expected a sequence"),
            (r#"{"name":"a","nodes":[7]}"#, "nodes[0]: invalid type: integer `7`, expected an object"),
            (
                r#"{"name":"a","nodes":[{"id":"a","parents":[7]}]}"#,
                "nodes[0].parents[0]: must be the id of a node, or {\"node\": ID, \"if\": CONDITION}",
            ),
        ] {
            assert_eq!(decode_error::<GraphSpec>(text), wrong, "{text}");
        }
        let faults = decode_json::<Vec<NodeEdit>>(r#"[{"insert":{"id":"A"}}]"#, "edits").unwrap_err();
        assert!(faults[0].path.starts_with("edits[0].insert"), "{faults:?}");
    }
}
