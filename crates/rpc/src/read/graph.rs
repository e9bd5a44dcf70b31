//! Reads a whole workflow, and a graph inside of a node.

use millstream_model::problem::ValidationProblems;
use millstream_workflow::graph::{GraphSpec, NodeSpec};

use super::node::node_at;
use super::options::read_workflow_options;
use super::text::{JsonOrigin, MessageReader};
use crate::path::FieldPath;
use crate::proto;

/// Reads a workflow to create. Output-only fields and the id are ignored.
pub fn read_workflow(given: proto::Workflow) -> Result<GraphSpec, ValidationProblems> {
    let mut reading = MessageReader::new(JsonOrigin::Checked);
    let metadata = given.metadata.unwrap_or_default();
    let at = FieldPath::ROOT;
    let spec = GraphSpec {
        name: metadata.name,
        description: metadata.description,
        input: reading.read_json_or_null(&given.input_json, &at.field("input_json")),
        options: read_workflow_options(given.options, &at.field("options"), &mut reading),
        nodes: read_nodes(given.nodes, &at.field("nodes"), &mut reading),
    };
    reading.faults.finish_with(Some(spec))
}

pub(super) fn graph_at(given: proto::Graph, at: &FieldPath<'_>, reading: &mut MessageReader) -> GraphSpec {
    GraphSpec {
        name: given.name,
        description: given.description,
        input: reading.read_json_or_null(&given.input_json, &at.field("input_json")),
        options: read_workflow_options(given.options, &at.field("options"), reading),
        nodes: read_nodes(given.nodes, &at.field("nodes"), reading),
    }
}

fn read_nodes(given: Vec<proto::Node>, at: &FieldPath<'_>, reading: &mut MessageReader) -> Vec<NodeSpec> {
    let node = |(index, node)| node_at(node, &at.at(index), reading);
    given.into_iter().enumerate().filter_map(node).collect()
}
