//! The notices of a graph transition: the data of the events that watchers receive.
//!
//! Derived from the transition alone, so they are the same live, from the feed, or from the log years later.

use std::collections::BTreeSet;
use std::sync::Arc;

use millstream_model::status::ExecutionPhase;
use serde::Serialize;

use crate::graph::{GraphChange, GraphPatch, NodeChange, NodeId, NodeSpec, NodeSpecUpdate, NodeStatus};
use crate::log::Transition;

/// One notice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type")]
pub enum GraphTransitionNotice {
    #[serde(rename = "workflow.created")]
    Created {
        name: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        creator: Option<String>,
        nodes: usize,
    },
    /// Edits were applied; the diff.
    #[serde(rename = "workflow.edited")]
    Edited { revision: u32, inserted: Vec<Arc<NodeSpec>>, updated: Vec<NodeSpecUpdate>, deleted: Vec<NodeId> },
    /// The list of a fan-out was evaluated.
    #[serde(rename = "node.expanded")]
    Expanded { node: NodeId, instances: usize, revision: u32 },
    /// Its first attempt may begin.
    #[serde(rename = "node.scheduled")]
    Scheduled {
        node: NodeId,
        attempt: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// An attempt failed and a retry follows.
    #[serde(rename = "node.retried")]
    Retried {
        node: NodeId,
        /// The number of the retry.
        attempt: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// The node has ended, whether it ran or not.
    #[serde(rename = "node.completed")]
    NodeCompleted {
        node: NodeId,
        status: NodeStatus,
        attempt: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    #[serde(rename = "workflow.completed")]
    Completed,
    #[serde(rename = "workflow.failed")]
    Failed {
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    #[serde(rename = "workflow.cancelled")]
    Cancelled {
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}

impl GraphTransitionNotice {
    /// The event type of its JSON: `node.completed` and so on.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Created { .. } => "workflow.created",
            Self::Edited { .. } => "workflow.edited",
            Self::Expanded { .. } => "node.expanded",
            Self::Scheduled { .. } => "node.scheduled",
            Self::Retried { .. } => "node.retried",
            Self::NodeCompleted { .. } => "node.completed",
            Self::Completed => "workflow.completed",
            Self::Failed { .. } => "workflow.failed",
            Self::Cancelled { .. } => "workflow.cancelled",
        }
    }

    /// The node concerned, if the notice concerns one.
    pub const fn node(&self) -> Option<&NodeId> {
        match self {
            Self::Expanded { node, .. }
            | Self::Scheduled { node, .. }
            | Self::Retried { node, .. }
            | Self::NodeCompleted { node, .. } => Some(node),
            Self::Created { .. }
            | Self::Edited { .. }
            | Self::Completed
            | Self::Failed { .. }
            | Self::Cancelled { .. } => None,
        }
    }
}

/// The notices of a transition, sorted for readers: changes of the shape, then the nodes, then the end.
pub fn transition_notices(transition: &Transition) -> Vec<GraphTransitionNotice> {
    let decision = &transition.decision;
    let Some(change) = decision.graph.as_deref() else { return Vec::new() };
    let mut notices = shape_notices(change);
    let expanded: BTreeSet<&NodeId> = change.expanded.iter().map(|expansion| &expansion.id).collect();
    let nodes = change.nodes.iter().filter(|node| node.status.is_ended() || !expanded.contains(&node.id));
    notices.extend(nodes.filter_map(node_notice));
    let reason = decision.reason.clone();
    notices.extend(match decision.phase {
        ExecutionPhase::Active => None,
        ExecutionPhase::Completed => Some(GraphTransitionNotice::Completed),
        ExecutionPhase::Failed => Some(GraphTransitionNotice::Failed { reason }),
        ExecutionPhase::Cancelled => Some(GraphTransitionNotice::Cancelled { reason }),
    });
    notices
}

fn shape_notices(change: &GraphChange) -> Vec<GraphTransitionNotice> {
    let created = change.created.as_ref().map(|created| GraphTransitionNotice::Created {
        name: created.graph.name.clone(),
        creator: created.creator.clone(),
        nodes: created.graph.nodes.len(),
    });
    let expanded = change.expanded.iter().map(|expansion| GraphTransitionNotice::Expanded {
        node: expansion.id.clone(),
        instances: expansion.items.len(),
        revision: expansion.revision,
    });
    created.into_iter().chain(change.patch.as_ref().map(edit_notice)).chain(expanded).collect()
}

fn edit_notice(patch: &GraphPatch) -> GraphTransitionNotice {
    GraphTransitionNotice::Edited {
        revision: patch.revision,
        inserted: patch.inserted.clone(),
        updated: patch.updated.clone(),
        deleted: patch.deleted.iter().map(|spec| spec.id.clone()).collect(),
    }
}

fn node_notice(change: &NodeChange) -> Option<GraphTransitionNotice> {
    let (node, attempt, why) = (change.id.clone(), change.attempt, change.why.clone());
    match change.status {
        NodeStatus::Pending => None,
        NodeStatus::Running if attempt > 1 => Some(GraphTransitionNotice::Retried { node, attempt, why }),
        NodeStatus::Running => Some(GraphTransitionNotice::Scheduled { node, attempt, why }),
        status @ (NodeStatus::Pass
        | NodeStatus::Fail
        | NodeStatus::TaskError
        | NodeStatus::InfraError
        | NodeStatus::Timeout
        | NodeStatus::Crash
        | NodeStatus::Skipped
        | NodeStatus::Filtered) => Some(GraphTransitionNotice::NodeCompleted { node, status, attempt, why }),
    }
}
