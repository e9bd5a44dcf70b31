//! Dispatches and logs of graphs, in memory.

use std::collections::BTreeMap;

use millstream_core::graph::{NodeId, NodeStatus};
use millstream_core::id::ExecutionKey;
use millstream_core::time::Timestamp;

use super::Memory;
use super::graphs::GraphTable;
use super::tables::Tables;
use crate::Result;
use crate::dispatching::{self, Budget, MAX_DOWNSTREAM};
use crate::feed::Fed;
use crate::graph_store::{Dispatch, DispatchContext, GraphStore, LogView, NodeLog, NodeView, Upstream};
use crate::log_cap::{Adding, Kept};

#[async_trait::async_trait]
impl GraphStore for Memory {
    async fn dispatch(
        &self,
        batch: &[Dispatch],
        result_bytes: usize,
        now: Timestamp,
    ) -> Result<Vec<Option<DispatchContext>>> {
        let mut tables = self.tables();
        let (mut contexts, mut told) = (Vec::new(), BTreeMap::<&ExecutionKey, Vec<&Dispatch>>::new());
        for dispatch in batch {
            let context = record(&mut tables, dispatch, result_bytes, now)?;
            if context.is_some() {
                told.entry(&dispatch.execution).or_default().push(dispatch);
            }
            contexts.push(context);
        }
        for (execution, dispatches) in told {
            tables.feed(execution, Fed::Dispatched(dispatching::told(dispatches)), now);
        }
        Ok(contexts)
    }

    async fn keep_logs(&self, logs: &[NodeLog], now: Timestamp) -> Result<()> {
        let mut tables = self.tables();
        for log in logs {
            keep(&mut tables, log, now);
        }
        Ok(())
    }
}

fn record(
    tables: &mut Tables,
    dispatch: &Dispatch,
    result_bytes: usize,
    now: Timestamp,
) -> Result<Option<DispatchContext>> {
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
        upstream: upstream(graph, &dispatching::parents(&node.spec)?, result_bytes),
        downstream: downstream(graph, &node.children)?,
        spec: node.spec,
        instance: node.instance,
    }))
}

fn upstream(graph: &GraphTable, parents: &[NodeId], result_bytes: usize) -> Vec<Upstream> {
    let mut budget = Budget::of(result_bytes);
    let mut upstream = Vec::new();
    for parent in parents {
        let is_instance = |node: &&NodeView| node.instance.as_ref().is_some_and(|(of, _)| of == parent);
        let mut instances: Vec<&NodeView> = graph.nodes.values().filter(is_instance).collect();
        instances.sort_by(|one, other| {
            dispatching::instance_order(&one.node).cmp(&dispatching::instance_order(&other.node))
        });
        for node in graph.nodes.get(parent).into_iter().chain(instances) {
            let result_bytes = node.result.as_ref().map_or(0, |result| result.len());
            let fits = budget.takes(result_bytes);
            upstream.push(Upstream {
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

fn downstream(graph: &GraphTable, children: &[NodeId]) -> Result<Vec<(NodeId, String)>> {
    let mut children: Vec<&NodeId> = children.iter().collect();
    children.sort();
    let known = children.into_iter().filter_map(|child| graph.nodes.get(child)).take(MAX_DOWNSTREAM);
    known.map(|node| Ok((node.node.clone(), dispatching::goal(&node.spec)?))).collect()
}

fn keep(tables: &mut Tables, log: &NodeLog, now: Timestamp) {
    let position = tables.last_log + 1;
    let Some(graph) = tables.executions.get_mut(&log.execution).and_then(|row| row.graph.as_mut()) else {
        return;
    };
    if !graph.nodes.contains_key(&log.node) {
        return;
    }
    let entries = graph.logs.entry(log.node.clone()).or_default();
    let of_attempt = || entries.iter().filter(|entry| entry.attempt == log.attempt);
    let kept = Kept {
        bytes: of_attempt().map(|entry| entry.text.len()).sum(),
        truncated: of_attempt().any(|entry| entry.truncated),
    };
    match kept.with(&log.text) {
        Adding::Entry(text, Kept { truncated, .. }) => {
            let text = text.into_owned();
            entries.push(LogView { position, attempt: log.attempt, text, truncated, at: now });
            tables.last_log = position;
        }
        Adding::Mark => {
            if let Some(last) = entries.iter_mut().rfind(|entry| entry.attempt == log.attempt) {
                last.truncated = true;
            }
        }
        Adding::Nothing => {}
    }
}
