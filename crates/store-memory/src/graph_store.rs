//! Dispatches and logs of graphs, in memory.

use std::collections::BTreeMap;

use millstream_model::id::ExecutionKey;
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::feed::FeedContent;
use millstream_store::graph_store::{
    DispatchContext, ExecutorLogText, GraphStore, LogView, NodeDispatch, NodeView, UpstreamResult,
};
use millstream_store::log_cap::{LogAddition, LogUsage};
use millstream_store::node_request::{self, MAX_DOWNSTREAM, ResultBudget};
use millstream_workflow::graph::{NodeId, NodeStatus};

use crate::MemoryStore;
use crate::graphs::GraphTable;
use crate::tables::MemoryTables;

#[async_trait::async_trait]
impl GraphStore for MemoryStore {
    async fn record_dispatches(
        &self,
        batch: &[NodeDispatch],
        result_bytes: usize,
        now: Timestamp,
    ) -> StoreResult<Vec<Option<DispatchContext>>> {
        let mut tables = self.lock_tables();
        let (mut contexts, mut told) = (Vec::new(), BTreeMap::<&ExecutionKey, Vec<&NodeDispatch>>::new());
        for dispatch in batch {
            let context = record_dispatch(&mut tables, dispatch, result_bytes, now)?;
            if context.is_some() {
                told.entry(&dispatch.execution).or_default().push(dispatch);
            }
            contexts.push(context);
        }
        for (execution, dispatches) in told {
            tables.append_feed_entry(
                execution,
                FeedContent::Dispatched(node_request::dispatch_entry_body(dispatches)),
                now,
            );
        }
        Ok(contexts)
    }

    async fn append_logs(&self, logs: &[ExecutorLogText], now: Timestamp) -> StoreResult<()> {
        let mut tables = self.lock_tables();
        for log in logs {
            append_log(&mut tables, log, now);
        }
        Ok(())
    }
}

fn record_dispatch(
    tables: &mut MemoryTables,
    dispatch: &NodeDispatch,
    result_bytes: usize,
    now: Timestamp,
) -> StoreResult<Option<DispatchContext>> {
    let Some(graph) = tables.executions.get_mut(&dispatch.execution).and_then(|row| row.graph.as_mut())
    else {
        return Ok(None);
    };
    let is_meant =
        |node: &&mut NodeView| node.status == NodeStatus::Running && node.attempt == dispatch.attempt;
    let Some(node) = graph.nodes.get_mut(&dispatch.node).filter(is_meant) else { return Ok(None) };
    node.executor = Some(dispatch.executor.clone());
    node.executor_reason = Some(dispatch.reason.clone());
    node.dispatched_at = Some(now);
    let node = node.clone();
    Ok(Some(DispatchContext {
        upstream: upstream_results(graph, &node_request::decode_parents(&node.spec)?, result_bytes),
        downstream: downstream_goals(graph, &node.children)?,
        spec: node.spec,
        instance: node.instance,
    }))
}

fn upstream_results(graph: &GraphTable, parents: &[NodeId], result_bytes: usize) -> Vec<UpstreamResult> {
    let mut budget = ResultBudget::of(result_bytes);
    let mut upstream = Vec::new();
    for parent in parents {
        let is_instance = |node: &&NodeView| node.instance.as_ref().is_some_and(|(of, _)| of == parent);
        let mut instances: Vec<&NodeView> = graph.nodes.values().filter(is_instance).collect();
        instances.sort_by(|one, other| {
            node_request::instance_order(&one.node).cmp(&node_request::instance_order(&other.node))
        });
        for node in graph.nodes.get(parent).into_iter().chain(instances) {
            let result_bytes = node.result.as_ref().map_or(0, |result| result.len());
            let fits = budget.take_if_fits(result_bytes);
            upstream.push(UpstreamResult {
                node: node.node.clone(),
                status: node.status,
                instance_of: node.instance.as_ref().map(|(of, _)| of.clone()),
                result: node.result.clone().filter(|_| fits),
                result_bytes,
            });
        }
    }
    upstream
}

fn downstream_goals(graph: &GraphTable, children: &[NodeId]) -> StoreResult<Vec<(NodeId, String)>> {
    let mut children: Vec<&NodeId> = children.iter().collect();
    children.sort();
    let known = children.into_iter().filter_map(|child| graph.nodes.get(child)).take(MAX_DOWNSTREAM);
    known.map(|node| Ok((node.node.clone(), node_request::decode_goal(&node.spec)?))).collect()
}

fn append_log(tables: &mut MemoryTables, log: &ExecutorLogText, now: Timestamp) {
    let position = tables.last_log + 1;
    let Some(graph) = tables.executions.get_mut(&log.execution).and_then(|row| row.graph.as_mut()) else {
        return;
    };
    if !graph.nodes.contains_key(&log.node) {
        return;
    }
    let entries = graph.logs.entry(log.node.clone()).or_default();
    let of_attempt = || entries.iter().filter(|entry| entry.attempt == log.attempt);
    let kept = LogUsage {
        bytes: of_attempt().map(|entry| entry.text.len()).sum(),
        truncated: of_attempt().any(|entry| entry.truncated),
    };
    match kept.add_text(&log.text) {
        LogAddition::Entry(text, LogUsage { truncated, .. }) => {
            let text = text.into_owned();
            entries.push(LogView { position, attempt: log.attempt, text, truncated, at: now });
            tables.last_log = position;
        }
        LogAddition::Mark => {
            if let Some(last) = entries.iter_mut().rfind(|entry| entry.attempt == log.attempt) {
                last.truncated = true;
            }
        }
        LogAddition::Nothing => {}
    }
}
