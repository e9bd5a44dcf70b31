//! Reading graphs, in memory.

use std::collections::BTreeMap;
use std::ops::Bound;

use millstream_model::id::ExecutionKey;
use millstream_store::StoreResult;
use millstream_store::graph_store::{GraphCounts, GraphView, GraphViews, LogView, NodeFilter, NodeView};
use millstream_workflow::graph::NodeId;

use crate::MemoryStore;
use crate::graphs::GraphTable;
use crate::tables::MemoryTables;

#[async_trait::async_trait]
impl GraphViews for MemoryStore {
    async fn find_graphs(&self, executions: &[ExecutionKey]) -> StoreResult<Vec<Option<GraphView>>> {
        let tables = self.lock_tables();
        Ok(executions.iter().map(|key| graph_view(&tables, key)).collect())
    }

    async fn list_nodes(
        &self,
        execution: &ExecutionKey,
        filter: &NodeFilter,
        after: Option<&NodeId>,
        limit: usize,
    ) -> StoreResult<Vec<NodeView>> {
        let tables = self.lock_tables();
        let Some(graph) = find_graph(&tables, execution) else { return Ok(Vec::new()) };
        let is_wanted = |view: &&NodeView| {
            (filter.statuses.is_empty() || filter.statuses.contains(&view.status))
                && (filter.ids.is_empty() || filter.ids.contains(&view.node))
        };
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let nodes = graph.nodes.range::<NodeId, _>((start, Bound::Unbounded)).map(|(_, view)| view);
        Ok(nodes.filter(is_wanted).take(limit).cloned().collect())
    }

    async fn read_logs(
        &self,
        execution: &ExecutionKey,
        node: &NodeId,
        after: i64,
        limit: usize,
    ) -> StoreResult<Vec<LogView>> {
        let tables = self.lock_tables();
        let logs = find_graph(&tables, execution).and_then(|graph| graph.logs.get(node));
        let wanted = logs.into_iter().flatten().filter(|entry| entry.position > after);
        Ok(wanted.take(limit).cloned().collect())
    }

    async fn graph_counts(&self) -> StoreResult<GraphCounts> {
        let tables = self.lock_tables();
        let mut counts = GraphCounts::default();
        let active = tables.executions.values().filter(|row| !row.phase.is_ended());
        for graph in active.filter_map(|row| row.graph.as_ref()) {
            counts.active += 1;
            for node in graph.nodes.values() {
                *counts.nodes.entry(node.status).or_default() += 1;
            }
        }
        Ok(counts)
    }
}

fn find_graph<'a>(tables: &'a MemoryTables, key: &ExecutionKey) -> Option<&'a GraphTable> {
    tables.executions.get(key)?.graph.as_ref()
}

fn graph_view(tables: &MemoryTables, key: &ExecutionKey) -> Option<GraphView> {
    let row = tables.executions.get(key)?;
    let graph = row.graph.as_ref()?;
    let mut nodes = BTreeMap::new();
    for node in graph.nodes.values() {
        *nodes.entry(node.status).or_default() += 1;
    }
    Some(GraphView {
        execution: key.clone(),
        metadata: graph.metadata.clone(),
        revision: graph.revision,
        blob: graph.blob.clone(),
        snapshot_seq: row.snapshot.seq,
        nodes,
    })
}
