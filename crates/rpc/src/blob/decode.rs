//! Decodes stored graphs.

use std::sync::Arc;

use millstream_model::raw::RawJson;
use millstream_workflow::graph::{FanOutInstances, Graph, GraphOptions, GraphParts, NodeId, NodeParts};
use prost::Message as _;
use prost::bytes::Bytes;

use crate::path::FieldPath;
use crate::proto;
use crate::read::{JsonOrigin, MessageReader, node_at, read_workflow_options};
use crate::status::status_in;
use crate::unreadable::StoredFormError;

const WHAT: &str = "the stored graph";

/// Decodes a graph. Invalid bytes are an error, never a panic.
pub fn decode(bytes: &[u8]) -> Result<Graph, StoredFormError> {
    // Nodes are decoded one at a time: ten thousand decoded messages would take ten times the memory of
    // their bytes.
    let split = proto::GraphStateSplit::decode(Bytes::copy_from_slice(bytes)).map_err(corrupt_graph)?;
    let proto::GraphStateSplit { head, nodes } = split;
    let mut reading = MessageReader::new(JsonOrigin::Stored);
    let at = FieldPath::ROOT;
    let StoredGraphHead { name, description, creator, input, options, revision } =
        head_at(head, &at, &mut reading)?;
    let nodes = self::decode_nodes(nodes, &at.field("nodes"), &mut reading)?;
    let parts = GraphParts { name, description, creator, input, options, revision, nodes };
    reading.faults.finish_with(Some(parts)).map(Graph::from_parts).map_err(corrupt_graph)
}

/// The data of a graph without its nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredGraphHead {
    pub name: String,
    pub description: String,
    pub creator: Option<String>,
    pub input: RawJson,
    pub options: GraphOptions,
    pub revision: u32,
}

/// Decodes the head alone, without the nodes.
pub fn decode_head(bytes: &[u8]) -> Result<StoredGraphHead, StoredFormError> {
    let proto::GraphStateHead { head } = proto::GraphStateHead::decode(bytes).map_err(corrupt_graph)?;
    let mut reading = MessageReader::new(JsonOrigin::Stored);
    let head = head_at(head, &FieldPath::ROOT, &mut reading)?;
    reading.faults.finish_with(Some(head)).map_err(corrupt_graph)
}

fn corrupt_graph(why: impl std::fmt::Display) -> StoredFormError {
    StoredFormError::new(WHAT, why)
}

fn head_at(
    given: Option<proto::GraphHead>,
    at: &FieldPath<'_>,
    reading: &mut MessageReader,
) -> Result<StoredGraphHead, StoredFormError> {
    let given = given.ok_or_else(|| corrupt_graph("it has no head"))?;
    Ok(StoredGraphHead {
        name: given.name,
        description: given.description,
        creator: given.creator,
        input: reading.read_json_or_null(&given.input_json, &at.field("input_json")),
        options: read_workflow_options(given.options, &at.field("options"), reading),
        revision: given.revision,
    })
}

fn decode_nodes(
    given: Vec<Bytes>,
    at: &FieldPath<'_>,
    reading: &mut MessageReader,
) -> Result<Vec<NodeParts>, StoredFormError> {
    let mut nodes = Vec::with_capacity(given.len());
    for (index, bytes) in given.into_iter().enumerate() {
        let at = at.at(index);
        let state =
            proto::NodeState::decode(bytes).map_err(|error| corrupt_graph(format!("{at}: {error}")))?;
        nodes.extend(decode_node(state, &at, reading));
    }
    Ok(nodes)
}

fn decode_node(
    given: proto::NodeState,
    at: &FieldPath<'_>,
    reading: &mut MessageReader,
) -> Option<NodeParts> {
    let spec = match given.node {
        Some(node) => node_at(node, &at.field("node"), reading),
        None => {
            reading.add_fault(&at.field("node"), "is missing");
            None
        }
    };
    let status = status_in(given.status);
    if status.is_none() {
        reading.add_fault(&at.field("status"), format!("{} is not a status", given.status));
    }
    let kept = reading.read_json(&given.kept_json, &at.field("kept_json"));
    let of = decode_instance(&given.instance_of, &given.item_json, at, reading);
    Some(NodeParts {
        spec: Arc::new(spec?),
        status: status?,
        attempt: given.attempt,
        why: given.why,
        kept,
        avoid: given.avoid,
        of,
        instances: given.instances.map(|proto::InstanceCounts { all, open, failed }| FanOutInstances {
            all,
            open,
            failed,
        }),
    })
}

fn decode_instance(
    of: &str,
    item: &str,
    at: &FieldPath<'_>,
    reading: &mut MessageReader,
) -> Option<(NodeId, RawJson)> {
    if of.is_empty() {
        return None;
    }
    let of = reading.read_name(of, &at.field("instance_of"));
    Some((of?, reading.read_json_or_null(item, &at.field("item_json"))))
}
