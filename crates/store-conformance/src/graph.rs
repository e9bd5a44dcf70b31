//! Graphs for cases: their nodes, and short ways to store them.

use std::sync::Arc;

use millstream_model::id::{DefinitionRef, ExecutionKey, Name, Seq};
use millstream_model::raw::RawJson;
use millstream_store::event_log::ExecutionStart;
use millstream_store::feed::{FeedContent, FeedEntry};
use millstream_store::graph_store::{
    DispatchContext, GraphRows, GraphView, NodeDispatch, NodeFilter, NodeView, NodeWrite,
};
use millstream_workflow::graph::{NodeId, NodeStatus};
use millstream_workflow::log::ExecutionState;

use crate::ConformanceBench;
use crate::commit_builder::ConformanceVisit;
use crate::fixture::{name, new_execution, raw};

pub(crate) const METADATA: &str = r#"{"name":"g","description":"","creator":null}"#;

/// A new node, `PENDING`, with the goal `do ID`.
pub(crate) fn node(id: &str, parents: &[&str], children: &[&str]) -> NodeWrite {
    let parents = RawJson::from_value(&parents);
    let spec = format!(r#"{{"id":"{id}","parents":{parents},"task":{{"goal":"do {id}"}}}}"#);
    NodeWrite {
        spec: Some(raw(&spec)),
        children: Some(children.iter().map(|child| name(child)).collect()),
        ..change(id, NodeStatus::Pending, 0)
    }
}

/// An existing node in another status.
pub(crate) fn change(id: &str, status: NodeStatus, attempt: u32) -> NodeWrite {
    NodeWrite {
        node: name(id),
        status,
        attempt,
        seq: Seq::FIRST,
        why: None,
        spec: None,
        children: None,
        instance: None,
        result: None,
        error: None,
        started_at: None,
        ended_at: None,
    }
}

/// A node that runs for the first time.
pub(crate) fn running(id: &str) -> NodeWrite {
    change(id, NodeStatus::Running, 1)
}

/// A node that has passed at the first attempt, with this result.
pub(crate) fn passed(id: &str, result: &str) -> NodeWrite {
    NodeWrite { result: Some(raw(result)), ..change(id, NodeStatus::Pass, 1) }
}

/// An instance of a fan-out.
pub(crate) fn instance(id: &str, of: &str, item: &str) -> NodeWrite {
    NodeWrite { instance: Some((name(of), raw(item))), ..node(id, &[], &[]) }
}

/// Changes of a commit without a blob.
pub(crate) fn rows(nodes: Vec<NodeWrite>) -> GraphRows {
    GraphRows { revision: 1, metadata: None, blob: None, nodes, deleted: Vec::new() }
}

pub(crate) fn blob(bytes: &[u8]) -> Arc<[u8]> {
    bytes.into()
}

/// A graph to start, with the blob `[1]`.
pub(crate) async fn new_graph(
    bench: &ConformanceBench,
    key: &ExecutionKey,
    nodes: Vec<NodeWrite>,
) -> ExecutionStart {
    let rows = GraphRows { metadata: Some(raw(METADATA)), blob: Some(blob(&[1])), ..rows(nodes) };
    ExecutionStart {
        definition: DefinitionRef { name: Name::graph(), version: 1 },
        graph: Some(Box::new(rows)),
        ..new_execution(bench, key, bench.now().await)
    }
}

pub(crate) fn dispatch(key: &ExecutionKey, node: &str, attempt: u32) -> NodeDispatch {
    NodeDispatch {
        execution: key.clone(),
        node: name(node),
        attempt,
        executor: "exec-1".to_owned(),
        reason: "the only one".to_owned(),
    }
}

impl ConformanceBench {
    pub(crate) async fn start_graph(&self, key: &ExecutionKey, nodes: Vec<NodeWrite>) -> ExecutionState {
        let new = new_graph(self, key, nodes).await;
        self.start_as(new).await
    }

    /// Apply an event that changes these nodes.
    pub(crate) async fn change_graph(
        &self,
        key: &ExecutionKey,
        state: &ExecutionState,
        changes: GraphRows,
    ) -> ExecutionState {
        let event = self.post(key, "go").await;
        let visit = ConformanceVisit::to(key, state, self.now().await).apply(event, "working").graph(changes);
        self.commit_done(visit.without_snapshot()).await
    }

    /// Start a graph and write changes in a second transition.
    pub(crate) async fn graph_with(
        &self,
        key: &ExecutionKey,
        nodes: Vec<NodeWrite>,
        changes: Vec<NodeWrite>,
    ) -> ExecutionState {
        let state = self.start_graph(key, nodes).await;
        self.change_graph(key, &state, rows(changes)).await
    }

    pub(crate) async fn graph(&self, key: &ExecutionKey) -> GraphView {
        let keys = std::slice::from_ref(key);
        self.stores.graph_views.find_graphs(keys).await.unwrap().remove(0).expect("the graph is there")
    }

    pub(crate) async fn nodes(&self, key: &ExecutionKey) -> Vec<NodeView> {
        let all = NodeFilter::default();
        self.stores.graph_views.list_nodes(key, &all, None, usize::MAX).await.unwrap()
    }

    pub(crate) async fn node(&self, key: &ExecutionKey, id: &str) -> NodeView {
        let only = NodeFilter { ids: vec![name(id)], ..NodeFilter::default() };
        let mut found = self.stores.graph_views.list_nodes(key, &only, None, 2).await.unwrap();
        assert_eq!(found.len(), 1, "{id} is there once");
        found.remove(0)
    }

    pub(crate) async fn dispatch(
        &self,
        batch: &[NodeDispatch],
        result_bytes: usize,
    ) -> Vec<Option<DispatchContext>> {
        let now = self.now().await;
        let contexts = self.stores.graphs.record_dispatches(batch, result_bytes, now).await.unwrap();
        assert_eq!(contexts.len(), batch.len(), "one answer per dispatch");
        contexts
    }

    /// The context of a node that runs for the first time.
    pub(crate) async fn context(
        &self,
        key: &ExecutionKey,
        node: &str,
        result_bytes: usize,
    ) -> DispatchContext {
        self.dispatch(&[dispatch(key, node, 1)], result_bytes).await.remove(0).expect("it is under way")
    }

    pub(crate) async fn feed(&self, key: &ExecutionKey) -> Vec<FeedEntry> {
        self.stores.feed.read_feed(key, 0, usize::MAX).await.unwrap()
    }
}

pub(crate) fn ids(nodes: &[NodeView]) -> Vec<&str> {
    nodes.iter().map(|node| NodeId::as_str(&node.node)).collect()
}

/// `FIRST-LAST` or the nodes that were dispatched.
pub(crate) fn told(entries: &[FeedEntry]) -> Vec<String> {
    let told = |entry: &FeedEntry| match &entry.what {
        FeedContent::Transitions { first, last } => format!("{first}-{last}"),
        FeedContent::Dispatched(body) => body.to_string(),
    };
    entries.iter().map(told).collect()
}
