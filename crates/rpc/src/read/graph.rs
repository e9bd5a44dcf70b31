//! Reads a whole workflow, and a graph inside of a node.

use millstream_core::graph::{GraphSpec, NodeSpec};
use millstream_core::problem::Problems;

use super::node::node_at;
use super::options::workflow_options;
use super::text::{Json, Reading};
use crate::path::Path;
use crate::proto;

/// Reads a workflow to create. Output-only fields and the id are ignored.
pub fn workflow(given: proto::Workflow) -> Result<GraphSpec, Problems> {
    let mut reading = Reading::new(Json::Checked);
    let metadata = given.metadata.unwrap_or_default();
    let at = Path::ROOT;
    let spec = GraphSpec {
        name: metadata.name,
        description: metadata.description,
        input: reading.json_or_null(&given.input_json, &at.field("input_json")),
        options: workflow_options(given.options, &at.field("options"), &mut reading),
        nodes: nodes(given.nodes, &at.field("nodes"), &mut reading),
    };
    reading.faults.or(Some(spec))
}

pub(super) fn graph_at(given: proto::Graph, at: &Path<'_>, reading: &mut Reading) -> GraphSpec {
    GraphSpec {
        name: given.name,
        description: given.description,
        input: reading.json_or_null(&given.input_json, &at.field("input_json")),
        options: workflow_options(given.options, &at.field("options"), reading),
        nodes: nodes(given.nodes, &at.field("nodes"), reading),
    }
}

fn nodes(given: Vec<proto::Node>, at: &Path<'_>, reading: &mut Reading) -> Vec<NodeSpec> {
    let node = |(index, node)| node_at(node, &at.at(index), reading);
    given.into_iter().enumerate().filter_map(node).collect()
}
