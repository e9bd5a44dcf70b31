//! Graphs beside the log: rows that a commit writes, and what performing their nodes needs.
//!
//! The log holds everything; these rows make it cheap. The blob is the whole graph at the execution's
//! `snapshot_seq`, opaque to the store. Node rows are always current: a commit writes those that it changes.
//! Everything that happens is also in the *feed*, a numbered list per execution that watchers read and that
//! is published as outbound events: a commit adds one entry for all its transitions, a batch of dispatches
//! one per execution.

use std::collections::BTreeMap;
use std::sync::Arc;

use millstream_model::id::{ExecutionKey, Seq};
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_workflow::graph::{NodeId, NodeStatus};

use crate::StoreResult;

/// What a start or a commit writes about a graph, in its own transaction.
#[derive(Debug, Clone)]
pub struct GraphRows {
    pub revision: u32,
    /// At creation: `{"name", "description", "creator"}` as JSON. Later `None`: it never changes.
    pub metadata: Option<RawJson>,
    /// The whole graph; given exactly when the snapshot is written.
    pub blob: Option<Arc<[u8]>>,
    /// Changed nodes, each once: the row as it is after the commit.
    pub nodes: Vec<NodeWrite>,
    /// Nodes that an edit has deleted. A node of the same id may be inserted later.
    pub deleted: Vec<NodeId>,
}

/// A node's row, new or changed. A field that is `None` keeps its value in an existing row.
#[derive(Debug, Clone)]
pub struct NodeWrite {
    pub node: NodeId,
    pub status: NodeStatus,
    pub attempt: u32,
    /// The seq of the last change.
    pub seq: Seq,
    /// Always written.
    pub why: Option<String>,
    /// JSON of the [`NodeSpec`](millstream_workflow::graph::NodeSpec): of a new or an edited node.
    pub spec: Option<RawJson>,
    /// Written where they have changed.
    pub children: Option<Vec<NodeId>>,
    /// Of an instance of a fan-out: its node, and its list element. Only of a new node.
    pub instance: Option<(NodeId, RawJson)>,
    /// Of one that has ended.
    pub result: Option<RawJson>,
    pub error: Option<String>,
    /// When it was dispatched for the first time.
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
}

#[async_trait::async_trait]
pub trait GraphStore: Send + Sync {
    /// Records which executor is about to perform these attempts, one entry in the feed per execution, and
    /// returns the contents of their requests, in order. One transaction. `None`, and nothing recorded, where
    /// the attempt is over: the node is gone, it is not `RUNNING`, or another attempt at it is under way.
    ///
    /// Upstream results are returned in the order of the node's parents, as long as all of them together stay
    /// within `result_bytes`. The first that does not fit and all later ones have `result: None` and their
    /// size.
    async fn record_dispatches(
        &self,
        batch: &[NodeDispatch],
        result_bytes: usize,
        now: Timestamp,
    ) -> StoreResult<Vec<Option<DispatchContext>>>;

    /// Stores log text that executors sent while performing. At most [`MAX_LOG_BYTES`] are stored per attempt
    /// at a node: the rest is dropped and the last entry is marked `truncated`. Texts of a removed execution
    /// or node are dropped.
    async fn append_logs(&self, logs: &[ExecutorLogText], now: Timestamp) -> StoreResult<()>;
}

/// How much log text is stored per attempt.
pub const MAX_LOG_BYTES: usize = 64 * 1024;

/// An attempt that is about to be performed.
#[derive(Debug, Clone)]
pub struct NodeDispatch {
    pub execution: ExecutionKey,
    pub node: NodeId,
    pub attempt: u32,
    pub executor: String,
    /// Why this executor.
    pub reason: String,
}

/// Contents of the dispatch request for a node.
#[derive(Debug, Clone)]
pub struct DispatchContext {
    /// JSON of the [`NodeSpec`](millstream_workflow::graph::NodeSpec).
    pub spec: RawJson,
    pub instance: Option<(NodeId, RawJson)>,
    /// Its parents in their order; the instances of a fan-out parent follow it, in their own order.
    pub upstream: Vec<UpstreamResult>,
    /// Its children by id, with their goals; no more than [`MAX_DOWNSTREAM`](crate::node_request::MAX_DOWNSTREAM).
    pub downstream: Vec<(NodeId, String)>,
}

#[derive(Debug, Clone)]
pub struct UpstreamResult {
    pub node: NodeId,
    pub status: NodeStatus,
    /// Of an instance of a fan-out: its fan-out node.
    pub instance_of: Option<NodeId>,
    pub result: Option<RawJson>,
    /// Size of the result, also where it is left out; 0 where there is none.
    pub result_bytes: usize,
}

#[derive(Debug, Clone)]
pub struct ExecutorLogText {
    pub execution: ExecutionKey,
    pub node: NodeId,
    pub attempt: u32,
    pub text: String,
}

/// Reading graphs.
#[async_trait::async_trait]
pub trait GraphViews: Send + Sync {
    /// In the order asked; `None` where there is no such execution or it is no graph.
    async fn find_graphs(&self, executions: &[ExecutionKey]) -> StoreResult<Vec<Option<GraphView>>>;

    /// Nodes in the order of their ids, after `after`.
    async fn list_nodes(
        &self,
        execution: &ExecutionKey,
        filter: &NodeFilter,
        after: Option<&NodeId>,
        limit: usize,
    ) -> StoreResult<Vec<NodeView>>;

    /// The stored logs of a node, of all attempts, in order.
    async fn read_logs(
        &self,
        execution: &ExecutionKey,
        node: &NodeId,
        after: i64,
        limit: usize,
    ) -> StoreResult<Vec<LogView>>;

    /// Over all tenants, for gauges: graphs that have not ended, and their nodes by status.
    async fn graph_counts(&self) -> StoreResult<GraphCounts>;
}

#[derive(Debug, Clone)]
pub struct GraphView {
    pub execution: ExecutionKey,
    pub metadata: RawJson,
    pub revision: u32,
    /// The blob and the seq of its snapshot.
    pub blob: Arc<[u8]>,
    pub snapshot_seq: Seq,
    pub nodes: BTreeMap<NodeStatus, u32>,
}

#[derive(Debug, Clone, Default)]
pub struct NodeFilter {
    /// Empty: of any status.
    pub statuses: Vec<NodeStatus>,
    /// Only these; empty: all.
    pub ids: Vec<NodeId>,
}

#[derive(Debug, Clone)]
pub struct NodeView {
    pub node: NodeId,
    pub status: NodeStatus,
    pub attempt: u32,
    pub seq: Seq,
    pub why: Option<String>,
    pub spec: RawJson,
    pub children: Vec<NodeId>,
    pub instance: Option<(NodeId, RawJson)>,
    pub result: Option<RawJson>,
    pub error: Option<String>,
    /// The executor that performs or performed it last, and why that one was chosen.
    pub executor: Option<String>,
    pub executor_reason: Option<String>,
    pub started_at: Option<Timestamp>,
    pub dispatched_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogView {
    /// Position in the node's log.
    pub position: i64,
    pub attempt: u32,
    pub text: String,
    /// More was written than is stored.
    pub truncated: bool,
    pub at: Timestamp,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GraphCounts {
    pub active: u64,
    pub nodes: BTreeMap<NodeStatus, u64>,
}
