//! The rows of graphs and of the feed, in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use millstream_model::raw::RawJson;
use millstream_store::feed::FeedEntry;
use millstream_store::graph_store::{GraphRows, LogView, NodeView, NodeWrite};
use millstream_workflow::graph::NodeId;

/// The graph part of an execution.
#[derive(Debug)]
pub(crate) struct GraphTable {
    pub(crate) metadata: RawJson,
    pub(crate) revision: u32,
    pub(crate) blob: Arc<[u8]>,
    pub(crate) nodes: BTreeMap<NodeId, NodeView>,
    pub(crate) logs: BTreeMap<NodeId, Vec<LogView>>,
}

#[derive(Debug)]
pub(crate) struct FeedRow {
    pub(crate) entry: FeedEntry,
    pub(crate) published: bool,
}

impl GraphTable {
    pub(crate) fn from_rows(rows: &GraphRows) -> Self {
        let mut table = Self {
            metadata: rows.metadata.clone().unwrap_or_else(RawJson::null),
            revision: 0,
            blob: Arc::default(),
            nodes: BTreeMap::new(),
            logs: BTreeMap::new(),
        };
        table.write_rows(rows);
        table
    }

    pub(crate) fn write_rows(&mut self, rows: &GraphRows) {
        self.revision = rows.revision;
        if let Some(blob) = &rows.blob {
            self.blob = blob.clone();
        }
        self.nodes.retain(|node, _| !rows.deleted.contains(node));
        for write in &rows.nodes {
            match self.nodes.get_mut(&write.node) {
                Some(view) => overwrite_node(view, write),
                None => {
                    self.nodes.insert(write.node.clone(), new_node_view(write));
                }
            }
        }
    }
}

fn new_node_view(write: &NodeWrite) -> NodeView {
    NodeView {
        node: write.node.clone(),
        status: write.status,
        attempt: write.attempt,
        seq: write.seq,
        why: write.why.clone(),
        spec: write.spec.clone().unwrap_or_else(RawJson::null),
        children: write.children.clone().unwrap_or_default(),
        instance: write.instance.clone(),
        result: write.result.clone(),
        error: write.error.clone(),
        executor: None,
        executor_reason: None,
        started_at: write.started_at,
        dispatched_at: None,
        ended_at: write.ended_at,
    }
}

/// A field that is `None` keeps its value, except `why`.
fn overwrite_node(view: &mut NodeView, write: &NodeWrite) {
    fn overwrite_if_written<T: Clone>(stored: &mut Option<T>, written: &Option<T>) {
        if written.is_some() {
            stored.clone_from(written);
        }
    }
    (view.status, view.attempt, view.seq) = (write.status, write.attempt, write.seq);
    view.why.clone_from(&write.why);
    if let Some(spec) = &write.spec {
        view.spec = spec.clone();
    }
    if let Some(children) = &write.children {
        view.children.clone_from(children);
    }
    overwrite_if_written(&mut view.result, &write.result);
    overwrite_if_written(&mut view.error, &write.error);
    overwrite_if_written(&mut view.started_at, &write.started_at);
    overwrite_if_written(&mut view.ended_at, &write.ended_at);
}
