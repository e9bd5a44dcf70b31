//! Dispatching nodes: the executor's record, the contents of the requests, and the logs.

use std::collections::{BTreeMap, HashMap};

use millstream_model::id::ExecutionKey;
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::graph_store::{
    DispatchContext, ExecutorLogText, GraphStore, NodeDispatch, UpstreamResult,
};
use millstream_store::log_cap::{LogAddition, LogUsage};
use millstream_store::node_request::{self, MAX_DOWNSTREAM, ResultBudget};
use millstream_workflow::graph::{NodeId, NodeStatus};
use rusqlite::{Connection, OptionalExtension, Row};

use crate::connect::SqliteStore;
use crate::decode::SqliteFields;
use crate::errors::SqliteResult;
use crate::graph_rows::feed_dispatched;
use crate::param::MessageText;

#[async_trait::async_trait]
impl GraphStore for SqliteStore {
    async fn record_dispatches(
        &self,
        batch: &[NodeDispatch],
        result_bytes: usize,
        now: Timestamp,
    ) -> StoreResult<Vec<Option<DispatchContext>>> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let batch = batch.to_vec();
        self.write_transaction(move |connection| dispatch_batch(connection, &batch, result_bytes, now)).await
    }

    async fn append_logs(&self, logs: &[ExecutorLogText], now: Timestamp) -> StoreResult<()> {
        if logs.is_empty() {
            return Ok(());
        }
        let logs = logs.to_vec();
        self.write_transaction(move |connection| {
            logs.iter().try_for_each(|log| keep_log(connection, log, now))
        })
        .await
    }
}

fn dispatch_batch(
    connection: &Connection,
    batch: &[NodeDispatch],
    result_bytes: usize,
    now: Timestamp,
) -> SqliteResult<Vec<Option<DispatchContext>>> {
    let mut told = BTreeMap::<&ExecutionKey, Vec<&NodeDispatch>>::new();
    let mut contexts = Vec::with_capacity(batch.len());
    let mut goals = ChildGoals::new();
    for dispatch in batch {
        let context = record_dispatch(connection, dispatch, result_bytes, now, &mut goals)?;
        if context.is_some() {
            told.entry(&dispatch.execution).or_default().push(dispatch);
        }
        contexts.push(context);
    }
    for (execution, dispatches) in told {
        feed_dispatched(connection, execution, &node_request::dispatch_entry_body(dispatches), now)?;
    }
    Ok(contexts)
}

/// Goals of children, read once per batch: many nodes may share a child, whose spec has the goal and the
/// edges to all of them. `None`: there is no such node.
type ChildGoals<'b> = HashMap<&'b ExecutionKey, HashMap<NodeId, Option<String>>>;

fn record_dispatch<'b>(
    connection: &Connection,
    dispatch: &'b NodeDispatch,
    result_bytes: usize,
    now: Timestamp,
    goals: &mut ChildGoals<'b>,
) -> SqliteResult<Option<DispatchContext>> {
    const RECORD: &str = "
        UPDATE graph_nodes SET executor = ?5, executor_reason = ?6, dispatched_at = ?7
        WHERE tenant = ?1 AND execution_id = ?2 AND node = ?3 AND attempt = ?4 AND status = 'RUNNING'
        RETURNING spec, children, instance_of, item";
    let key = &dispatch.execution;
    let mut update = connection.prepare_cached(RECORD)?;
    let mut rows = update.query((
        key.tenant.as_str(),
        key.execution.as_str(),
        dispatch.node.as_str(),
        dispatch.attempt,
        MessageText(&dispatch.executor),
        MessageText(&dispatch.reason),
        now.as_millis(),
    ))?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let row = SqliteFields(row);
    let (spec, children) = (row.raw(0)?, row.json::<Vec<NodeId>>(1)?);
    let parents = node_request::decode_parents(&spec)?;
    Ok(Some(DispatchContext {
        instance: row.instance()?,
        upstream: read_upstream(connection, key, &parents, result_bytes)?,
        downstream: read_downstream(connection, key, children, goals.entry(key).or_default())?,
        spec,
    }))
}

/// Results are read one by one and only if they fit: SQLite materialises every column that it selects.
fn read_upstream(
    connection: &Connection,
    key: &ExecutionKey,
    parents: &[NodeId],
    result_bytes: usize,
) -> SqliteResult<Vec<UpstreamResult>> {
    const READ_PARENT: &str = "
        SELECT node, status, instance_of, octet_length(result) FROM graph_nodes
        WHERE tenant = ?1 AND execution_id = ?2 AND node = ?3";
    const READ_INSTANCES: &str = "
        SELECT node, status, instance_of, octet_length(result) FROM graph_nodes
        WHERE tenant = ?1 AND execution_id = ?2 AND node > ?3 AND node < ?4 AND instance_of = ?5
        ORDER BY length(node), node";
    const READ_RESULT: &str =
        "SELECT result FROM graph_nodes WHERE tenant = ?1 AND execution_id = ?2 AND node = ?3";
    let mut upstream = Vec::new();
    let (tenant, execution) = (key.tenant.as_str(), key.execution.as_str());
    let mut read_parent = connection.prepare_cached(READ_PARENT)?;
    let mut read_instances = connection.prepare_cached(READ_INSTANCES)?;
    for parent in parents {
        let mut rows = read_parent.query((tenant, execution, parent.as_str()))?;
        while let Some(row) = rows.next()? {
            upstream.push(upstream_of(row)?);
        }
        let (low, high) = node_request::instance_range(parent);
        let mut rows = read_instances.query((tenant, execution, low, high, parent.as_str()))?;
        while let Some(row) = rows.next()? {
            upstream.push(upstream_of(row)?);
        }
    }
    let mut budget = ResultBudget::of(result_bytes);
    let mut read_result = connection.prepare_cached(READ_RESULT)?;
    for one in &mut upstream {
        if !budget.take_if_fits(one.result_bytes) {
            break;
        }
        let mut rows = read_result.query((tenant, execution, one.node.as_str()))?;
        one.result = rows.next()?.map(|row| SqliteFields(row).opt_raw(0)).transpose()?.flatten();
    }
    Ok(upstream)
}

/// Its result is yet to be read.
fn upstream_of(row: &Row<'_>) -> SqliteResult<UpstreamResult> {
    let row = SqliteFields(row);
    let result_bytes = match row.opt_int(3)? {
        Some(_) => row.size(3)?,
        None => 0,
    };
    Ok(UpstreamResult {
        node: row.id(0)?,
        status: row.word(1, NodeStatus::parse)?,
        instance_of: row.opt_id(2)?,
        result: None,
        result_bytes,
    })
}

fn read_downstream(
    connection: &Connection,
    key: &ExecutionKey,
    mut children: Vec<NodeId>,
    goals: &mut HashMap<NodeId, Option<String>>,
) -> SqliteResult<Vec<(NodeId, String)>> {
    const READ_SPEC: &str =
        "SELECT spec FROM graph_nodes WHERE tenant = ?1 AND execution_id = ?2 AND node = ?3";
    children.sort();
    let mut read = connection.prepare_cached(READ_SPEC)?;
    let mut downstream = Vec::new();
    for child in children {
        if downstream.len() == MAX_DOWNSTREAM {
            break;
        }
        if !goals.contains_key(&child) {
            let mut rows = read.query((key.tenant.as_str(), key.execution.as_str(), child.as_str()))?;
            let spec = rows.next()?.map(|row| SqliteFields(row).raw(0)).transpose()?;
            goals.insert(child.clone(), spec.as_ref().map(node_request::decode_goal).transpose()?);
        }
        if let Some(Some(goal)) = goals.get(&child) {
            downstream.push((child, goal.clone()));
        }
    }
    Ok(downstream)
}

fn keep_log(connection: &Connection, log: &ExecutorLogText, now: Timestamp) -> SqliteResult<()> {
    const INSERT_LOG: &str = "
        INSERT INTO graph_logs (tenant, execution_id, node, attempt, text, kept, truncated, at)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    const MARK_LOG: &str = "UPDATE graph_logs SET truncated = 1 WHERE position = ?1";
    let key = &log.execution;
    if !is_node(connection, key, &log.node)? {
        return Ok(());
    }
    let last = last_log(connection, log)?;
    let kept = last.map(|(_, kept)| kept).unwrap_or_default();
    match (kept.add_text(&log.text), last) {
        (LogAddition::Entry(text, kept), _) => {
            connection.prepare_cached(INSERT_LOG)?.execute((
                key.tenant.as_str(),
                key.execution.as_str(),
                log.node.as_str(),
                log.attempt,
                &*text,
                i64::try_from(kept.bytes).unwrap_or(i64::MAX),
                kept.truncated,
                now.as_millis(),
            ))?;
        }
        (LogAddition::Mark, Some((position, _))) => {
            connection.prepare_cached(MARK_LOG)?.execute([position])?;
        }
        (LogAddition::Mark, None) | (LogAddition::Nothing, _) => {}
    }
    Ok(())
}

fn is_node(connection: &Connection, key: &ExecutionKey, node: &NodeId) -> SqliteResult<bool> {
    const IS_NODE: &str = "
        SELECT EXISTS (SELECT 1 FROM graph_nodes WHERE tenant = ?1 AND execution_id = ?2 AND node = ?3)";
    let place = (key.tenant.as_str(), key.execution.as_str(), node.as_str());
    Ok(connection.prepare_cached(IS_NODE)?.query_row(place, |row| row.get(0))?)
}

/// The last entry of an attempt records how much is stored of it.
fn last_log(connection: &Connection, log: &ExecutorLogText) -> SqliteResult<Option<(i64, LogUsage)>> {
    const LAST_LOG: &str = "
        SELECT position, kept, truncated FROM graph_logs
        WHERE tenant = ?1 AND execution_id = ?2 AND node = ?3 AND attempt = ?4
        ORDER BY position DESC LIMIT 1";
    let key = &log.execution;
    let place = (key.tenant.as_str(), key.execution.as_str(), log.node.as_str(), log.attempt);
    let mut read = connection.prepare_cached(LAST_LOG)?;
    let last = read.query_row(place, |row| {
        let bytes = usize::try_from(row.get::<_, i64>(1)?).unwrap_or(usize::MAX);
        Ok((row.get(0)?, LogUsage { bytes, truncated: row.get(2)? }))
    });
    Ok(last.optional()?)
}
