//! Maps a graph and its transitions to the rows that the store writes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use millstream_model::id::{EventId, Name, Seq};
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_store::graph_store::{GraphRows, NodeWrite};
use millstream_workflow::graph::{Graph, GraphChange, Node, NodeChange, NodeId, NodeOutcome, NodeStatus};
use millstream_workflow::log::Transition;
use serde::Serialize;

use crate::blob;

/// Whether the snapshot (blob) is written as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GraphBlobWrite {
    Write,
    Skip,
}

/// The immutable data of a graph.
#[derive(Serialize)]
struct GraphMetadata<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    creator: Option<&'a str>,
}

/// The rows of a start.
pub fn rows_of_start(transition: &Transition, graph: &Graph) -> GraphRows {
    let mut touched = TouchedNodes::default();
    for id in graph.nodes.keys() {
        touched.touch_node(id, transition.seq).shape = true;
    }
    let metadata = GraphMetadata {
        name: &graph.name,
        description: &graph.description,
        creator: graph.creator.as_deref(),
    };
    GraphRows {
        metadata: Some(RawJson::from_value(&metadata)),
        ..touched.into_rows(graph, GraphBlobWrite::Write)
    }
}

/// The rows of a commit: `after` is the graph after all of `transitions`, `payload` returns the payloads of
/// their events.
pub fn rows_of_commit<'a>(
    transitions: &[Transition],
    payload: &dyn Fn(EventId) -> Option<&'a RawJson>,
    after: &Graph,
    blob: GraphBlobWrite,
) -> GraphRows {
    let mut touched = TouchedNodes::default();
    for transition in transitions {
        if let Some(change) = &transition.decision.graph {
            touched.record_change(transition, change);
            if transition.name == Name::node_outcome() {
                touched.record_outcome(transition, payload(transition.event_id), change);
            }
        }
    }
    touched.into_rows(after, blob)
}

#[derive(Default)]
struct TouchedNodes {
    nodes: BTreeMap<NodeId, TouchedNode>,
    deleted: BTreeSet<NodeId>,
}

/// Changes of one node.
struct TouchedNode {
    seq: Seq,
    /// New, or edited.
    shape: bool,
    /// Its children have changed.
    children: bool,
    result: Option<RawJson>,
    error: Option<String>,
    started_at: Option<Timestamp>,
    ended_at: Option<Timestamp>,
}

impl TouchedNodes {
    fn touch_node(&mut self, id: &NodeId, seq: Seq) -> &mut TouchedNode {
        let touch = self.nodes.entry(id.clone()).or_insert(TouchedNode {
            seq,
            shape: false,
            children: false,
            result: None,
            error: None,
            started_at: None,
            ended_at: None,
        });
        touch.seq = seq;
        touch
    }

    fn record_change(&mut self, transition: &Transition, change: &GraphChange) {
        let seq = transition.seq;
        if let Some(patch) = &change.patch {
            let gone = patch.deleted.iter().chain(patch.updated.iter().map(|updated| &updated.was));
            let there = patch.inserted.iter().chain(patch.updated.iter().map(|updated| &updated.is));
            for spec in gone.chain(there.clone()) {
                for edge in &spec.parents {
                    self.touch_node(&edge.from, seq).children = true;
                }
            }
            for spec in &patch.deleted {
                self.nodes.remove(&spec.id);
                self.deleted.insert(spec.id.clone());
            }
            for spec in there {
                self.touch_node(&spec.id, seq).shape = true;
            }
        }
        for node in &change.nodes {
            self.record_status(transition, node);
        }
        for expansion in &change.expanded {
            for number in 0..expansion.items.len() {
                if let Ok(instance) = Name::parse(format!("{}.{number}", expansion.id)) {
                    self.touch_node(&instance, seq).shape = true;
                }
            }
        }
    }

    fn record_status(&mut self, transition: &Transition, change: &NodeChange) {
        let touch = self.touch_node(&change.id, transition.seq);
        if change.status == NodeStatus::Running && change.attempt <= 1 {
            touch.started_at = Some(transition.at);
        }
        if change.status.is_ended() {
            touch.ended_at = Some(transition.at);
            if change.status.is_failure() {
                touch.error.clone_from(&change.why);
            }
        }
    }

    /// Records the outcome of an attempt if it was the last one.
    fn record_outcome(&mut self, transition: &Transition, payload: Option<&RawJson>, change: &GraphChange) {
        let Some(Ok(outcome)) = payload.map(|payload| payload.decode::<NodeOutcome>()) else { return };
        let Some(ended) = change.nodes.iter().find(|node| node.id == outcome.action) else { return };
        if !ended.status.is_ended() {
            return;
        }
        let touch = self.touch_node(&outcome.action, transition.seq);
        if let Some(answer) = outcome.result {
            touch.result = answer.result;
            if ended.status == answer.status && answer.error.is_some() {
                touch.error = answer.error;
            }
        } else if let Some(error) = outcome.error {
            touch.error = Some(error.message);
        }
    }

    fn into_rows(self, after: &Graph, blob: GraphBlobWrite) -> GraphRows {
        let nodes = self.nodes.into_iter();
        let nodes = nodes.filter_map(|(id, touch)| Some(write_node(after.nodes.get(&id)?, touch))).collect();
        GraphRows {
            revision: after.revision,
            metadata: None,
            blob: match blob {
                GraphBlobWrite::Write => Some(Arc::from(blob::encode(after))),
                GraphBlobWrite::Skip => None,
            },
            nodes,
            deleted: self.deleted.into_iter().collect(),
        }
    }
}

fn write_node(node: &Node, touch: TouchedNode) -> NodeWrite {
    let counted = || {
        let instances = node.instances.filter(|_| node.status == NodeStatus::Pass)?;
        Some(RawJson::from_trusted_text(format!("{{\"count\":{}}}", instances.all)))
    };
    NodeWrite {
        node: node.spec.id.clone(),
        status: node.status,
        attempt: node.attempt,
        seq: touch.seq,
        why: node.why.clone(),
        spec: touch.shape.then(|| RawJson::from_value(&*node.spec)),
        children: (touch.shape || touch.children).then(|| node.children.iter().cloned().collect()),
        instance: if touch.shape { node.of.clone() } else { None },
        result: touch.result.or_else(counted),
        error: touch.error,
        started_at: touch.started_at,
        ended_at: touch.ended_at,
    }
}
