//! JSON views of graphs and their nodes.
//!
//! `spec` is the author's text, byte for byte as stored; the other fields are computed from the state.

use std::collections::BTreeMap;
use std::fmt;

use millstream_model::id::{EventId, ExecutionId};
use millstream_model::raw::RawJson;
use millstream_model::status::ExecutionStatus;
use millstream_model::time::Timestamp;
use millstream_rpc::blob;
use millstream_rpc::unreadable::StoredFormError;
use millstream_store::graph_store::{LogView, NodeView};
use millstream_workflow::graph::{GraphOptions, NodeEdit, NodeId, NodeStatus};
use serde::{Deserialize, Serialize};

use crate::graphs::find::FoundGraph;
use crate::graphs::nodes::NodeDetails;

/// The status of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(super) enum GraphStatus {
    Running,
    Passed,
    Failed,
    Cancelled,
    Paused,
}

impl GraphStatus {
    pub(super) const ALL: &'static [GraphStatus] =
        &[Self::Running, Self::Passed, Self::Failed, Self::Cancelled, Self::Paused];

    pub(super) const fn of_execution(self) -> ExecutionStatus {
        match self {
            Self::Running => ExecutionStatus::Active,
            Self::Passed => ExecutionStatus::Completed,
            Self::Failed => ExecutionStatus::Failed,
            Self::Cancelled => ExecutionStatus::Cancelled,
            Self::Paused => ExecutionStatus::Paused,
        }
    }
}

impl From<ExecutionStatus> for GraphStatus {
    fn from(status: ExecutionStatus) -> Self {
        match status {
            ExecutionStatus::Active => Self::Running,
            ExecutionStatus::Completed => Self::Passed,
            ExecutionStatus::Failed => Self::Failed,
            ExecutionStatus::Cancelled => Self::Cancelled,
            ExecutionStatus::Paused => Self::Paused,
        }
    }
}

impl fmt::Display for GraphStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Running => "RUNNING",
            Self::Passed => "PASSED",
            Self::Failed => "FAILED",
            Self::Cancelled => "CANCELLED",
            Self::Paused => "PAUSED",
        })
    }
}

#[derive(Debug, Serialize)]
pub(super) struct GraphOut {
    pub(super) graph_id: ExecutionId,
    name: String,
    description: String,
    creator: Option<String>,
    status: GraphStatus,
    revision: u32,
    /// Absent in lists: it may be a megabyte large.
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<RawJson>,
    options: GraphOptions,
    /// Number of nodes per status.
    nodes: BTreeMap<NodeStatus, u32>,
    /// Why the graph has ended or is paused.
    reason: Option<String>,
    created_at: Timestamp,
    updated_at: Timestamp,
    /// The time of the last transition, once the graph has ended.
    ended_at: Option<Timestamp>,
}

/// The immutable metadata in the store.
#[derive(Deserialize)]
struct StoredGraphMetadata {
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    creator: Option<String>,
}

impl TryFrom<FoundGraph> for GraphOut {
    type Error = StoredFormError;

    fn try_from(found: FoundGraph) -> Result<Self, StoredFormError> {
        let FoundGraph { graph, execution } = found;
        let head = blob::decode_head(&graph.blob)?;
        let metadata: StoredGraphMetadata = graph
            .metadata
            .decode()
            .map_err(|error| StoredFormError { what: "the stored metadata", why: error.to_string() })?;
        let StoredGraphMetadata { name, description, creator } = metadata;
        Ok(Self {
            graph_id: graph.execution.execution,
            name,
            description,
            creator,
            status: execution.status.into(),
            revision: graph.revision,
            input: Some(head.input),
            options: head.options,
            nodes: graph.nodes.into_iter().filter(|(_, count)| *count > 0).collect(),
            // A graph that has ended gets no further transitions.
            ended_at: execution.state.phase.is_ended().then_some(execution.state.at),
            reason: execution.state.reason.or(execution.paused_reason),
            created_at: execution.created_at,
            updated_at: execution.updated_at,
        })
    }
}

impl GraphOut {
    /// The view in lists.
    pub(super) fn brief(found: FoundGraph) -> Result<Self, StoredFormError> {
        Ok(Self { input: None, ..Self::try_from(found)? })
    }
}

#[derive(Debug, Serialize)]
pub(super) struct NodeOut {
    node: NodeId,
    status: NodeStatus,
    attempt: u32,
    /// Why the node has this status.
    why: Option<String>,
    error: Option<String>,
    children: Vec<NodeId>,
    instance_of: Option<NodeId>,
    item: Option<RawJson>,
    executor: Option<String>,
    executor_reason: Option<String>,
    started_at: Option<Timestamp>,
    dispatched_at: Option<Timestamp>,
    ended_at: Option<Timestamp>,
    /// The size of the result, if there is one.
    result_bytes: Option<usize>,
    spec: RawJson,
    /// Present for a single node only.
    #[serde(flatten)]
    detail: Option<NodeDetailOut>,
}

#[derive(Debug, Serialize)]
struct NodeDetailOut {
    result: Option<RawJson>,
    /// The edits that the result requested.
    edits: Vec<NodeEdit>,
    /// The latest progress of the current attempt.
    progress: Option<RawJson>,
}

impl NodeOut {
    /// The view without the result.
    pub(super) fn brief(view: NodeView) -> Self {
        let (instance_of, item) = view.instance.unzip();
        Self {
            node: view.node,
            status: view.status,
            attempt: view.attempt,
            why: view.why,
            error: view.error,
            children: view.children,
            instance_of,
            item,
            executor: view.executor,
            executor_reason: view.executor_reason,
            started_at: view.started_at,
            dispatched_at: view.dispatched_at,
            ended_at: view.ended_at,
            result_bytes: view.result.map(|result| result.len()),
            spec: view.spec,
            detail: None,
        }
    }

    pub(super) fn whole(mut view: NodeView, beyond: NodeDetails) -> Self {
        let result = view.result.clone();
        view.children.sort();
        let detail = NodeDetailOut { result, edits: beyond.edits, progress: beyond.progress };
        Self { detail: Some(detail), ..Self::brief(view) }
    }
}

#[derive(Debug, Serialize)]
pub(super) struct NodeLogOut {
    attempt: u32,
    text: String,
    truncated: bool,
    at: Timestamp,
}

impl From<LogView> for NodeLogOut {
    fn from(view: LogView) -> Self {
        Self { attempt: view.attempt, text: view.text, truncated: view.truncated, at: view.at }
    }
}

#[derive(Debug, Serialize)]
pub(super) struct GraphEditedOut {
    pub(super) graph_id: ExecutionId,
    /// The revision after the edits.
    pub(super) revision: u32,
}

#[derive(Debug, Serialize)]
pub(super) struct GraphEditAcceptedOut {
    pub(super) graph_id: ExecutionId,
    pub(super) event_id: EventId,
}
