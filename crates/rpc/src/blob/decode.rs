//! Decodes stored graphs.

use std::sync::Arc;

use millstream_core::graph::{Graph, GraphOptions, Instances, NodeId, NodeParts, Parts};
use millstream_core::raw::RawJson;
use prost::Message as _;
use prost::bytes::Bytes;

use crate::path::Path;
use crate::proto;
use crate::read::{Json, Reading, node_at, workflow_options};
use crate::status::status_in;
use crate::unreadable::Unreadable;

const WHAT: &str = "the stored graph";

/// Decodes a graph. Invalid bytes are an error, never a panic.
pub fn decode(bytes: &[u8]) -> Result<Graph, Unreadable> {
    // Nodes are decoded one at a time: ten thousand decoded messages would take ten times the memory of
    // their bytes.
    let split = proto::GraphStateSplit::decode(Bytes::copy_from_slice(bytes)).map_err(corrupt)?;
    let proto::GraphStateSplit { head, nodes } = split;
    let mut reading = Reading::new(Json::Stored);
    let at = Path::ROOT;
    let Head { name, description, creator, input, options, revision } = head_at(head, &at, &mut reading)?;
    let nodes = self::nodes(nodes, &at.field("nodes"), &mut reading)?;
    let parts = Parts { name, description, creator, input, options, revision, nodes };
    reading.faults.or(Some(parts)).map(Graph::assemble).map_err(corrupt)
}

/// The data of a graph without its nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    pub name: String,
    pub description: String,
    pub creator: Option<String>,
    pub input: RawJson,
    pub options: GraphOptions,
    pub revision: u32,
}

/// Decodes the head alone, without the nodes.
pub fn head(bytes: &[u8]) -> Result<Head, Unreadable> {
    let proto::GraphStateHead { head } = proto::GraphStateHead::decode(bytes).map_err(corrupt)?;
    let mut reading = Reading::new(Json::Stored);
    let head = head_at(head, &Path::ROOT, &mut reading)?;
    reading.faults.or(Some(head)).map_err(corrupt)
}

fn corrupt(why: impl std::fmt::Display) -> Unreadable {
    Unreadable::new(WHAT, why)
}

fn head_at(
    given: Option<proto::GraphHead>,
    at: &Path<'_>,
    reading: &mut Reading,
) -> Result<Head, Unreadable> {
    let given = given.ok_or_else(|| corrupt("it has no head"))?;
    Ok(Head {
        name: given.name,
        description: given.description,
        creator: given.creator,
        input: reading.json_or_null(&given.input_json, &at.field("input_json")),
        options: workflow_options(given.options, &at.field("options"), reading),
        revision: given.revision,
    })
}

fn nodes(given: Vec<Bytes>, at: &Path<'_>, reading: &mut Reading) -> Result<Vec<NodeParts>, Unreadable> {
    let mut nodes = Vec::with_capacity(given.len());
    for (index, bytes) in given.into_iter().enumerate() {
        let at = at.at(index);
        let state = proto::NodeState::decode(bytes).map_err(|error| corrupt(format!("{at}: {error}")))?;
        nodes.extend(node(state, &at, reading));
    }
    Ok(nodes)
}

fn node(given: proto::NodeState, at: &Path<'_>, reading: &mut Reading) -> Option<NodeParts> {
    let spec = match given.node {
        Some(node) => node_at(node, &at.field("node"), reading),
        None => {
            reading.fault(&at.field("node"), "is missing");
            None
        }
    };
    let status = status_in(given.status);
    if status.is_none() {
        reading.fault(&at.field("status"), format!("{} is not a status", given.status));
    }
    let kept = reading.json(&given.kept_json, &at.field("kept_json"));
    let of = instance(&given.instance_of, &given.item_json, at, reading);
    Some(NodeParts {
        spec: Arc::new(spec?),
        status: status?,
        attempt: given.attempt,
        why: given.why,
        kept,
        avoid: given.avoid,
        of,
        instances: given.instances.map(|proto::InstanceCounts { all, open, failed }| Instances {
            all,
            open,
            failed,
        }),
    })
}

fn instance(of: &str, item: &str, at: &Path<'_>, reading: &mut Reading) -> Option<(NodeId, RawJson)> {
    if of.is_empty() {
        return None;
    }
    let of = reading.name(of, &at.field("instance_of"));
    Some((of?, reading.json_or_null(item, &at.field("item_json"))))
}
