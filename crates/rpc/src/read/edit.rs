//! Reads edits, from operators and from executors.

use std::sync::Arc;

use millstream_model::problem::ValidationProblems;
use millstream_workflow::graph::{NodeEdit, NodeSpec};

use super::node::node_at;
use super::text::{JsonOrigin, MessageReader};
use crate::path::FieldPath;
use crate::proto;
use crate::proto::node_edit::Kind;

/// A list of edits; paths begin with `edits`.
pub fn read_edits(given: Vec<proto::NodeEdit>) -> Result<Vec<NodeEdit>, ValidationProblems> {
    let mut reading = MessageReader::new(JsonOrigin::Checked);
    let edits = edits_at(given, &FieldPath::ROOT.field("edits"), &mut reading);
    reading.faults.finish_with(Some(edits))
}

pub(super) fn edits_at(
    given: Vec<proto::NodeEdit>,
    at: &FieldPath<'_>,
    reading: &mut MessageReader,
) -> Vec<NodeEdit> {
    let edit = |(index, edit)| edit_at(edit, &at.at(index), reading);
    given.into_iter().enumerate().filter_map(edit).collect()
}

fn edit_at(given: proto::NodeEdit, at: &FieldPath<'_>, reading: &mut MessageReader) -> Option<NodeEdit> {
    let proto::NodeEdit { kind, node, node_id } = given;
    match Kind::try_from(kind) {
        Ok(Kind::Insert) => read_edited_node(node, &node_id, at, reading).map(NodeEdit::Insert),
        Ok(Kind::Update) => read_edited_node(node, &node_id, at, reading).map(NodeEdit::Update),
        Ok(Kind::Delete) => {
            if node.is_some() {
                reading.add_fault(&at.field("node"), "does not belong to a DELETE, which has a node_id");
            }
            reading.read_name(&node_id, &at.field("node_id")).map(NodeEdit::Delete)
        }
        Ok(Kind::Unspecified) => {
            reading.add_fault(&at.field("kind"), "must be INSERT, UPDATE or DELETE");
            None
        }
        Err(_) => {
            reading.add_fault(&at.field("kind"), format!("{kind} is not a kind of edit"));
            None
        }
    }
}

fn read_edited_node(
    node: Option<proto::Node>,
    node_id: &str,
    at: &FieldPath<'_>,
    reading: &mut MessageReader,
) -> Option<Arc<NodeSpec>> {
    let Some(node) = node else {
        reading.add_fault(&at.field("node"), "is required");
        return None;
    };
    if !node_id.is_empty() && node_id != node.id {
        reading.add_fault(&at.field("node_id"), "is not the id of the node");
    }
    node_at(node, &at.field("node"), reading).map(Arc::new)
}
