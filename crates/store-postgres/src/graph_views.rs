//! Views of graphs. Read-only.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use async_trait::async_trait;
use millstream_model::id::ExecutionKey;
use millstream_store::StoreResult;
use millstream_store::graph_store::{GraphCounts, GraphView, GraphViews, LogView, NodeFilter, NodeView};
use millstream_workflow::graph::{NodeId, NodeStatus};
use sqlx::postgres::PgRow;
use sqlx::{PgPool, Row};

use crate::connect::PostgresStore;
use crate::decode;
use crate::errors::PostgresResult;
use crate::execution_store::KeyColumns;

#[async_trait]
impl GraphViews for PostgresStore {
    async fn find_graphs(&self, executions: &[ExecutionKey]) -> StoreResult<Vec<Option<GraphView>>> {
        if executions.is_empty() {
            return Ok(Vec::new());
        }
        self.without_retries(async {
            let mut counts = count_nodes(&self.pool, executions).await?;
            let mut found = read_graphs(&self.pool, executions).await?;
            for (key, view) in &mut found {
                view.nodes = counts.remove(key).unwrap_or_default();
            }
            Ok(executions.iter().map(|key| found.get(key).cloned()).collect())
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
        self.without_retries(read_nodes(&self.pool, execution, filter, after, limit)).await
    }

    async fn read_logs(
        &self,
        execution: &ExecutionKey,
        node: &NodeId,
        after: i64,
        limit: usize,
    ) -> StoreResult<Vec<LogView>> {
        const READ: &str = "
SELECT l.position, l.attempt, l.text, l.truncated, l.at FROM graph_logs l
WHERE l.tenant = $1 AND l.execution_id = $2 AND l.node = $3 AND l.position > $4
ORDER BY l.position LIMIT $5";
        self.without_retries(async {
            let rows = sqlx::query(READ)
                .bind(execution.tenant.as_str())
                .bind(execution.execution.as_str())
                .bind(node.as_str())
                .bind(after)
                .bind(i64::try_from(limit).unwrap_or(i64::MAX))
                .fetch_all(&self.pool)
                .await?;
            rows.iter().map(log_view).collect()
        })
        .await
    }

    async fn graph_counts(&self) -> StoreResult<GraphCounts> {
        // The index of unfinished graphs, and of those all nodes.
        const ACTIVE: &str = "
SELECT count(*) FROM executions x WHERE x.definition = 'millstream.graph' AND x.ended_at IS NULL";
        const NODES: &str = "
SELECT n.status, count(*) AS nodes
FROM executions x
CROSS JOIN LATERAL (
    SELECT n.status FROM graph_nodes n WHERE n.tenant = x.tenant AND n.execution_id = x.execution_id OFFSET 0) n
WHERE x.definition = 'millstream.graph' AND x.ended_at IS NULL
GROUP BY n.status";
        self.without_retries(async {
            let active: i64 = sqlx::query_scalar(ACTIVE).fetch_one(&self.pool).await?;
            let rows = sqlx::query(NODES).fetch_all(&self.pool).await?;
            let count = |row: &PgRow| {
                let nodes: i64 = row.try_get("nodes")?;
                Ok((decode::parsed(row, "status")?, nodes.unsigned_abs()))
            };
            let nodes = rows.iter().map(count).collect::<PostgresResult<BTreeMap<NodeStatus, u64>>>()?;
            Ok(GraphCounts { active: active.unsigned_abs(), nodes })
        })
        .await
    }
}

/// Without the counts. Blob and snapshot_seq come from one statement.
async fn read_graphs(
    pool: &PgPool,
    executions: &[ExecutionKey],
) -> PostgresResult<HashMap<ExecutionKey, GraphView>> {
    const READ: &str = "
SELECT g.*, x.snapshot_seq
FROM (SELECT DISTINCT * FROM unnest($1::text[], $2::text[]) AS u(tenant, execution_id)) k
CROSS JOIN LATERAL (
    SELECT g.* FROM graphs g WHERE g.tenant = k.tenant AND g.execution_id = k.execution_id OFFSET 0) g
CROSS JOIN LATERAL (
    SELECT x.snapshot_seq FROM executions x
    WHERE x.tenant = k.tenant AND x.execution_id = k.execution_id OFFSET 0) x";
    let keys: KeyColumns<'_> = executions.iter().collect();
    let rows = keys.bound(READ).fetch_all(pool).await?;
    rows.iter()
        .map(|row| {
            let execution = decode::execution_key(row)?;
            let view = GraphView {
                execution: execution.clone(),
                metadata: decode::json(row, "metadata")?,
                revision: decode::number(row, "revision")?,
                blob: Arc::from(row.try_get::<&[u8], _>("blob")?),
                snapshot_seq: decode::seq(row, "snapshot_seq")?,
                nodes: BTreeMap::new(),
            };
            Ok((execution, view))
        })
        .collect()
}

type NodeStatusCounts = HashMap<ExecutionKey, BTreeMap<NodeStatus, u32>>;

async fn count_nodes(pool: &PgPool, executions: &[ExecutionKey]) -> PostgresResult<NodeStatusCounts> {
    const COUNT: &str = "
SELECT k.tenant, k.execution_id, n.status, count(*) AS nodes
FROM (SELECT DISTINCT * FROM unnest($1::text[], $2::text[]) AS u(tenant, execution_id)) k
CROSS JOIN LATERAL (
    SELECT n.status FROM graph_nodes n WHERE n.tenant = k.tenant AND n.execution_id = k.execution_id OFFSET 0) n
GROUP BY 1, 2, 3";
    let keys: KeyColumns<'_> = executions.iter().collect();
    let rows = keys.bound(COUNT).fetch_all(pool).await?;
    let mut counts = NodeStatusCounts::new();
    for row in &rows {
        let of = counts.entry(decode::execution_key(row)?).or_default();
        of.insert(decode::parsed(row, "status")?, decode::number(row, "nodes")?);
    }
    Ok(counts)
}

async fn read_nodes(
    pool: &PgPool,
    execution: &ExecutionKey,
    filter: &NodeFilter,
    after: Option<&NodeId>,
    limit: usize,
) -> PostgresResult<Vec<NodeView>> {
    const PAGE: &str = "
SELECT n.* FROM graph_nodes n
WHERE n.tenant = $1 AND n.execution_id = $2 AND n.node > $3
  AND (cardinality($4::text[]) = 0 OR n.status = ANY ($4))
ORDER BY n.node LIMIT $5";
    const NAMED: &str = "
SELECT n.*
FROM (SELECT DISTINCT u.node COLLATE \"C\" AS node FROM unnest($6::text[]) AS u(node)) k
CROSS JOIN LATERAL (
    SELECT n.* FROM graph_nodes n
    WHERE n.tenant = $1 AND n.execution_id = $2 AND n.node = k.node
    OFFSET 0) n
WHERE n.node > $3 AND (cardinality($4::text[]) = 0 OR n.status = ANY ($4))
ORDER BY n.node LIMIT $5";
    let query = sqlx::query(if filter.ids.is_empty() { PAGE } else { NAMED })
        .bind(execution.tenant.as_str())
        .bind(execution.execution.as_str())
        .bind(after.map_or("", NodeId::as_str))
        .bind(filter.statuses.iter().map(|status| status.as_str()).collect::<Vec<_>>())
        .bind(i64::try_from(limit).unwrap_or(i64::MAX));
    let ids: Vec<&str> = filter.ids.iter().map(NodeId::as_str).collect();
    let query = if ids.is_empty() { query } else { query.bind(&ids) };
    query.fetch_all(pool).await?.iter().map(node_view).collect()
}

fn node_view(row: &PgRow) -> PostgresResult<NodeView> {
    Ok(NodeView {
        node: decode::parsed(row, "node")?,
        status: decode::parsed(row, "status")?,
        attempt: decode::number(row, "attempt")?,
        seq: decode::seq(row, "seq")?,
        why: row.try_get("why")?,
        spec: decode::json(row, "spec")?,
        children: decode::list(row, "children")?,
        instance: decode::instance(row)?,
        result: decode::json_option(row, "result")?,
        error: row.try_get("error")?,
        executor: row.try_get("executor")?,
        executor_reason: row.try_get("executor_reason")?,
        started_at: decode::time_option(row, "started_at")?,
        dispatched_at: decode::time_option(row, "dispatched_at")?,
        ended_at: decode::time_option(row, "ended_at")?,
    })
}

fn log_view(row: &PgRow) -> PostgresResult<LogView> {
    Ok(LogView {
        position: row.try_get("position")?,
        attempt: decode::number(row, "attempt")?,
        text: row.try_get("text")?,
        truncated: row.try_get("truncated")?,
        at: decode::time(row, "at")?,
    })
}
