//! Assembles a graph from its stored parts and splits it into them: the content of the blob beside the
//! snapshot.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use millstream_model::raw::RawJson;

use super::spec::{GraphOptions, NodeId, NodeSpec};
use super::state::{FanOutInstances, Graph, Node, NodeTally};
use super::status::NodeStatus;

/// A graph without its derived fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphParts {
    pub name: String,
    pub description: String,
    pub creator: Option<String>,
    pub input: RawJson,
    pub options: GraphOptions,
    pub revision: u32,
    /// Sorted by id.
    pub nodes: Vec<NodeParts>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeParts {
    pub spec: Arc<NodeSpec>,
    pub status: NodeStatus,
    pub attempt: u32,
    pub why: Option<String>,
    pub kept: Option<RawJson>,
    pub avoid: Vec<String>,
    pub of: Option<(NodeId, RawJson)>,
    pub instances: Option<FanOutInstances>,
}

impl Graph {
    pub fn from_parts(parts: GraphParts) -> Self {
        let mut graph = Self {
            name: parts.name,
            description: parts.description,
            creator: parts.creator,
            input: parts.input,
            options: parts.options,
            revision: parts.revision,
            nodes: BTreeMap::new(),
            ready: BTreeSet::new(),
            tally: NodeTally::default(),
            running_fan_outs: 0,
        };
        let mut ids = Vec::with_capacity(parts.nodes.len());
        for node in parts.nodes {
            ids.push(node.spec.id.clone());
            graph.insert(Node {
                status: node.status,
                attempt: node.attempt,
                why: node.why,
                kept: node.kept,
                avoid: node.avoid,
                of: node.of,
                instances: node.instances,
                ..Node::new_pending(node.spec)
            });
        }
        for id in &ids {
            graph.link(id);
        }
        graph
    }

    pub fn to_parts(&self) -> GraphParts {
        let nodes = self.nodes.values().map(|node| NodeParts {
            spec: Arc::clone(&node.spec),
            status: node.status,
            attempt: node.attempt,
            why: node.why.clone(),
            kept: node.kept.clone(),
            avoid: node.avoid.clone(),
            of: node.of.clone(),
            instances: node.instances,
        });
        GraphParts {
            name: self.name.clone(),
            description: self.description.clone(),
            creator: self.creator.clone(),
            input: self.input.clone(),
            options: self.options.clone(),
            revision: self.revision,
            nodes: nodes.collect(),
        }
    }
}
