//! Encodes graphs for storage.

use millstream_workflow::graph::{FanOutInstances, Graph, Node};
use prost::Message as _;
use prost::encoding::message;

use crate::proto;
use crate::spec_messages::{encode_node_spec, encode_workflow_options, json_or_empty};
use crate::status::status_out;

/// Field number of `GraphState.nodes`.
const NODES: u32 = 2;
/// Estimated size of a small node; the buffer grows beyond it.
const NODE_BYTES: usize = 160;

/// Encodes a graph. Deterministic.
pub fn encode(graph: &Graph) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(NODE_BYTES * (graph.nodes.len() + 1) + graph.input.len());
    proto::GraphStateHead { head: Some(encode_head(graph)) }.encode_raw(&mut bytes);
    // One node at a time: ten thousand messages would take more memory than their bytes.
    for node in graph.nodes.values() {
        message::encode(NODES, &encode_node(node), &mut bytes);
    }
    bytes
}

fn encode_head(graph: &Graph) -> proto::GraphHead {
    proto::GraphHead {
        name: graph.name.clone(),
        description: graph.description.clone(),
        creator: graph.creator.clone(),
        input_json: json_or_empty(&graph.input),
        options: encode_workflow_options(&graph.options),
        revision: graph.revision,
    }
}

fn encode_node(node: &Node) -> proto::NodeState {
    let (instance_of, item_json) = match &node.of {
        Some((of, item)) => (of.as_str().to_owned(), item.as_str().to_owned()),
        None => Default::default(),
    };
    let counts = |FanOutInstances { all, open, failed }| proto::InstanceCounts { all, open, failed };
    proto::NodeState {
        node: Some(encode_node_spec(&node.spec)),
        status: status_out(node.status).into(),
        attempt: node.attempt,
        why: node.why.clone(),
        kept_json: node.kept.as_ref().map(|kept| kept.as_str().to_owned()).unwrap_or_default(),
        avoid: node.avoid.clone(),
        instance_of,
        item_json,
        instances: node.instances.map(counts),
    }
}
