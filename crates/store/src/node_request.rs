//! Contents of a dispatch request for a node, shared by every backend: parsing the spec, the cap on named
//! children, the size budget of results. Pure.

use std::collections::BTreeSet;

use millstream_model::raw::RawJson;
use millstream_workflow::graph::{GraphEdge, NodeId, NodeTask};
use serde::{Deserialize, Serialize};

use crate::graph_store::NodeDispatch;
use crate::{StoreError, StoreResult};

/// How many children of a node its request names at most.
pub const MAX_DOWNSTREAM: usize = 100;

/// Parts of a [`NodeSpec`](millstream_workflow::graph::NodeSpec), each parsed alone: a node may have ten thousand
/// parents.
#[derive(Debug, Deserialize)]
struct NodeSpecEdges {
    #[serde(default)]
    parents: Vec<GraphEdge>,
}

#[derive(Debug, Deserialize)]
struct NodeSpecTask {
    #[serde(default)]
    task: NodeTask,
}

fn decode_part<T: serde::de::DeserializeOwned>(spec: &RawJson) -> StoreResult<T> {
    spec.decode().map_err(|error| StoreError::Corrupt(format!("node spec cannot be decoded: {error}")))
}

/// The parents of a node in their order, each once.
pub fn decode_parents(spec: &RawJson) -> StoreResult<Vec<NodeId>> {
    let mut seen = BTreeSet::new();
    let parents = decode_part::<NodeSpecEdges>(spec)?.parents.into_iter().map(|edge| edge.from);
    Ok(parents.filter(|parent| seen.insert(parent.clone())).collect())
}

pub fn decode_goal(spec: &RawJson) -> StoreResult<String> {
    Ok(decode_part::<NodeSpecTask>(spec)?.task.goal)
}

/// Bounds for the ids of a fan-out's instances: all of them lie between these two, which are no instances
/// themselves.
pub fn instance_range(node: &NodeId) -> (String, String) {
    // `/` is the character after `.`.
    (format!("{node}."), format!("{node}/"))
}

/// Sort key for instances: by their numbers, which have no leading zeros.
pub fn instance_order(node: &NodeId) -> (usize, &NodeId) {
    (node.as_str().len(), node)
}

/// Byte budget for upstream results. After the first result that does not fit, all later ones are left out.
#[derive(Debug, Clone, Copy)]
pub struct ResultBudget {
    left: Option<usize>,
}

impl ResultBudget {
    pub const fn of(bytes: usize) -> Self {
        Self { left: Some(bytes) }
    }

    /// Whether a result of this size fits.
    pub fn take_if_fits(&mut self, bytes: usize) -> bool {
        self.left = self.left.and_then(|left| left.checked_sub(bytes));
        self.left.is_some()
    }
}

/// The body of a feed entry about dispatches.
pub fn dispatch_entry_body<'a>(dispatches: impl IntoIterator<Item = &'a NodeDispatch>) -> RawJson {
    #[derive(Serialize)]
    struct DispatchedEntry<'a> {
        node: &'a NodeId,
        attempt: u32,
        executor: &'a str,
        reason: &'a str,
    }
    let told = |one: &'a NodeDispatch| DispatchedEntry {
        node: &one.node,
        attempt: one.attempt,
        executor: &one.executor,
        reason: &one.reason,
    };
    RawJson::from_value(&dispatches.into_iter().map(told).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: &str) -> NodeId {
        NodeId::parse(id).unwrap()
    }

    #[test]
    fn fan_out_instances_sort_by_number() {
        let mut ids = ["n.10", "n.2", "n.0", "n.1"].map(node);
        ids.sort_by(|one, other| instance_order(one).cmp(&instance_order(other)));
        assert_eq!(ids, ["n.0", "n.1", "n.2", "n.10"].map(node));
        let (low, high) = instance_range(&node("n"));
        assert!(ids.iter().all(|id| id.as_str() > low.as_str() && id.as_str() < high.as_str()));
        for other in ["n", "n-1", "n0", "na", "n_1"] {
            assert!(other < low.as_str() || other > high.as_str(), "{other}");
        }
    }

    #[test]
    fn result_budget_stops_at_first_overflow() {
        let mut budget = ResultBudget::of(10);
        assert_eq!([4, 0, 6, 1, 0].map(|bytes| budget.take_if_fits(bytes)), [true, true, true, false, false]);
    }

    #[test]
    fn spec_parents_keep_order_once_each() {
        let spec = r#"{"id":"c","parents":["b",{"node":"a","if":"true"},"b"],"unknown":1}"#;
        assert_eq!(decode_parents(&RawJson::parse(spec).unwrap()).unwrap(), [node("b"), node("a")]);
    }
}
