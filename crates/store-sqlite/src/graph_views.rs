//! Views of graphs. Read-only.

use std::collections::BTreeMap;

use millstream_model::id::ExecutionKey;
use millstream_model::raw::RawJson;
use millstream_store::StoreResult;
use millstream_store::graph_store::{GraphCounts, GraphView, GraphViews, LogView, NodeFilter, NodeView};
use millstream_workflow::graph::{NodeId, NodeStatus};
use rusqlite::Connection;

use crate::connect::SqliteStore;
use crate::decode::SqliteFields;
use crate::errors::SqliteResult;
use crate::param;

#[async_trait::async_trait]
impl GraphViews for SqliteStore {
    async fn find_graphs(&self, executions: &[ExecutionKey]) -> StoreResult<Vec<Option<GraphView>>> {
        if executions.is_empty() {
            return Ok(Vec::new());
        }
        let executions = executions.to_vec();
        self.read_transaction(move |connection| {
            executions.iter().map(|key| read_graph(connection, key)).collect()
        })
        .await
    }

    async fn list_nodes(
        &self,
        execution: &ExecutionKey,
        filter: &NodeFilter,
        after: Option<&NodeId>,
        limit: usize,
    ) -> StoreResult<Vec<NodeView>> {
        let (key, filter, after) = (execution.clone(), filter.clone(), after.cloned());
        self.read_transaction(move |connection| {
            if filter.ids.is_empty() {
                read_page(connection, &key, &filter, after.as_ref(), limit)
            } else {
                read_named(connection, &key, &filter, after.as_ref(), limit)
            }
        })
        .await
    }

    async fn read_logs(
        &self,
        execution: &ExecutionKey,
        node: &NodeId,
        after: i64,
        limit: usize,
    ) -> StoreResult<Vec<LogView>> {
        const LOGS: &str = "
            SELECT position, attempt, text, truncated, at FROM graph_logs
            WHERE tenant = ?1 AND execution_id = ?2 AND node = ?3 AND position > ?4
            ORDER BY position LIMIT ?5";
        let (key, node) = (execution.clone(), node.clone());
        self.read_transaction(move |connection| {
            let mut read = connection.prepare_cached(LOGS)?;
            let mut rows = read.query((
                key.tenant.as_str(),
                key.execution.as_str(),
                node.as_str(),
                after,
                param::limit(limit),
            ))?;
            let mut logs = Vec::new();
            while let Some(row) = rows.next()? {
                let row = SqliteFields(row);
                logs.push(LogView {
                    position: row.int(0)?,
                    attempt: row.number(1)?,
                    text: row.text(2)?.to_owned(),
                    truncated: row.flag(3)?,
                    at: row.time(4)?,
                });
            }
            Ok(logs)
        })
        .await
    }

    async fn graph_counts(&self) -> StoreResult<GraphCounts> {
        const ACTIVE: &str = "
            SELECT count(*) FROM executions INDEXED BY executions_graphs
            WHERE definition = 'millstream.graph' AND ended_at IS NULL";
        const NODES: &str = "
            SELECT n.status, count(*)
            FROM executions AS x INDEXED BY executions_graphs
            CROSS JOIN graph_nodes AS n ON n.tenant = x.tenant AND n.execution_id = x.execution_id
            WHERE x.definition = 'millstream.graph' AND x.ended_at IS NULL
            GROUP BY n.status";
        self.read_transaction(|connection| {
            let active: i64 = connection.prepare_cached(ACTIVE)?.query_row((), |row| row.get(0))?;
            let mut read = connection.prepare_cached(NODES)?;
            let mut rows = read.query(())?;
            let mut nodes = BTreeMap::new();
            while let Some(row) = rows.next()? {
                nodes.insert(SqliteFields(row).word(0, NodeStatus::parse)?, SqliteFields(row).count(1)?);
            }
            Ok(GraphCounts { active: active.unsigned_abs(), nodes })
        })
        .await
    }
}

fn read_graph(connection: &Connection, key: &ExecutionKey) -> SqliteResult<Option<GraphView>> {
    const READ_GRAPH: &str = "
        SELECT g.metadata, g.revision, g.blob, x.snapshot_seq
        FROM graphs AS g
        CROSS JOIN executions AS x ON x.tenant = g.tenant AND x.execution_id = g.execution_id
        WHERE g.tenant = ?1 AND g.execution_id = ?2";
    const COUNT_NODES: &str = "
        SELECT status, count(*) FROM graph_nodes WHERE tenant = ?1 AND execution_id = ?2 GROUP BY status";
    let place = (key.tenant.as_str(), key.execution.as_str());
    let mut read = connection.prepare_cached(READ_GRAPH)?;
    let mut rows = read.query(place)?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let row = SqliteFields(row);
    let mut count = connection.prepare_cached(COUNT_NODES)?;
    let mut counts = count.query(place)?;
    let mut nodes = BTreeMap::new();
    while let Some(row) = counts.next()? {
        nodes.insert(SqliteFields(row).word(0, NodeStatus::parse)?, SqliteFields(row).number(1)?);
    }
    Ok(Some(GraphView {
        execution: key.clone(),
        metadata: row.raw(0)?,
        revision: row.number(1)?,
        blob: row.blob(2)?,
        snapshot_seq: row.seq(3)?,
        nodes,
    }))
}

/// Statuses are passed as one JSON text; null means any.
fn read_page(
    connection: &Connection,
    key: &ExecutionKey,
    filter: &NodeFilter,
    after: Option<&NodeId>,
    limit: usize,
) -> SqliteResult<Vec<NodeView>> {
    const READ_PAGE: &str = "
        SELECT * FROM graph_nodes
        WHERE tenant = ?1 AND execution_id = ?2 AND node > ?3
          AND (?4 IS NULL OR status IN (SELECT value FROM json_each(?4)))
        ORDER BY node LIMIT ?5";
    let statuses = (!filter.statuses.is_empty()).then(|| RawJson::from_value(&filter.statuses));
    let mut read = connection.prepare_cached(READ_PAGE)?;
    let mut rows = read.query((
        key.tenant.as_str(),
        key.execution.as_str(),
        after.map_or("", NodeId::as_str),
        statuses.as_ref().map(RawJson::as_str),
        param::limit(limit),
    ))?;
    let mut views = Vec::new();
    while let Some(row) = rows.next()? {
        views.push(node_view(SqliteFields(row))?);
    }
    Ok(views)
}

fn read_named(
    connection: &Connection,
    key: &ExecutionKey,
    filter: &NodeFilter,
    after: Option<&NodeId>,
    limit: usize,
) -> SqliteResult<Vec<NodeView>> {
    const READ_NODE: &str = "SELECT * FROM graph_nodes WHERE tenant = ?1 AND execution_id = ?2 AND node = ?3";
    let mut ids: Vec<&NodeId> =
        filter.ids.iter().filter(|id| after.is_none_or(|after| *id > after)).collect();
    ids.sort();
    ids.dedup();
    let mut read = connection.prepare_cached(READ_NODE)?;
    let mut views = Vec::new();
    for id in ids {
        if views.len() == limit {
            break;
        }
        let mut rows = read.query((key.tenant.as_str(), key.execution.as_str(), id.as_str()))?;
        let Some(row) = rows.next()? else { continue };
        let view = node_view(SqliteFields(row))?;
        if filter.statuses.is_empty() || filter.statuses.contains(&view.status) {
            views.push(view);
        }
    }
    Ok(views)
}

fn node_view(row: SqliteFields<'_>) -> SqliteResult<NodeView> {
    Ok(NodeView {
        node: row.id("node")?,
        status: row.word("status", NodeStatus::parse)?,
        attempt: row.number("attempt")?,
        seq: row.seq("seq")?,
        why: row.opt_text("why")?,
        spec: row.raw("spec")?,
        children: row.json("children")?,
        instance: row.instance()?,
        result: row.opt_raw("result")?,
        error: row.opt_text("error")?,
        executor: row.opt_text("executor")?,
        executor_reason: row.opt_text("executor_reason")?,
        started_at: row.opt_time("started_at")?,
        dispatched_at: row.opt_time("dispatched_at")?,
        ended_at: row.opt_time("ended_at")?,
    })
}
