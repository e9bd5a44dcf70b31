//! Dispatching nodes: the executor's record, the contents of the requests, and the logs.
//!
//! A batch of dispatches is four statements however large it is: lock the graphs, record, read upstream and
//! downstream, write the feed. Only upstream results that fit leave the database: running sums of their
//! lengths are computed there, and a long value is not decompressed for its length.

use std::collections::{BTreeMap, HashMap};

use async_trait::async_trait;
use millstream_model::id::ExecutionKey;
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::graph_store::{DispatchContext, ExecutorLogText, GraphStore, NodeDispatch};
use millstream_store::node_request;
use millstream_workflow::graph::NodeId;
use sqlx::{PgConnection, Row};

use crate::connect::PostgresStore;
use crate::dispatch_context::{self, NeighbourRequest};
use crate::errors::{PostgresFailure, PostgresResult};
use crate::execution_store::KeyColumns;
use crate::{decode, graph_logs, graph_rows};

#[async_trait]
impl GraphStore for PostgresStore {
    async fn record_dispatches(
        &self,
        batch: &[NodeDispatch],
        result_bytes: usize,
        now: Timestamp,
    ) -> StoreResult<Vec<Option<DispatchContext>>> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        self.with_retries(|| self.dispatch_once(batch, result_bytes, now)).await
    }

    async fn append_logs(&self, logs: &[ExecutorLogText], now: Timestamp) -> StoreResult<()> {
        if logs.is_empty() {
            return Ok(());
        }
        self.with_retries(|| graph_logs::append_texts(&self.warm, logs, now)).await
    }
}

impl PostgresStore {
    async fn dispatch_once(
        &self,
        batch: &[NodeDispatch],
        result_bytes: usize,
        now: Timestamp,
    ) -> PostgresResult<Vec<Option<DispatchContext>>> {
        let mut held = self.warm.hold_pooled().await?;
        let mut transaction = held.begin().await?;
        graph_rows::lock(&mut transaction, batch.iter().map(|dispatch| &dispatch.execution)).await?;
        let recorded = record_batch(&mut transaction, batch, now).await?;
        if recorded.is_empty() {
            transaction.rollback().await?;
            return Ok(batch.iter().map(|_| None).collect());
        }
        let mut wanted = NeighbourRequest::default();
        for (execution, node) in recorded.iter().map(|((execution, _), node)| (*execution, node)) {
            wanted.add_node(execution, &node.parents, &node.children);
        }
        let around = dispatch_context::read_neighbours(&mut transaction, &wanted, result_bytes).await?;
        graph_rows::feed_dispatched(&mut transaction, &feed_bodies(batch, &recorded), now).await?;
        transaction.commit().await?;
        let context = |dispatch: &NodeDispatch| {
            let node = recorded.get(&(&dispatch.execution, &dispatch.node))?;
            if node.attempt != dispatch.attempt {
                return None;
            }
            Some(DispatchContext {
                spec: node.spec.clone(),
                instance: node.instance.clone(),
                upstream: around.upstream(&dispatch.execution, &node.parents),
                downstream: around.downstream(&dispatch.execution, &node.children),
            })
        };
        Ok(batch.iter().map(context).collect())
    }
}

/// A node whose dispatch was recorded.
struct RecordedDispatch {
    attempt: u32,
    spec: RawJson,
    parents: Vec<NodeId>,
    children: Vec<NodeId>,
    instance: Option<(NodeId, RawJson)>,
}

type AllRecorded<'a> = HashMap<(&'a ExecutionKey, &'a NodeId), RecordedDispatch>;

/// Only attempts that are under way. Of two dispatches of one node the last one stays.
async fn record_batch<'a>(
    connection: &mut PgConnection,
    batch: &'a [NodeDispatch],
    now: Timestamp,
) -> PostgresResult<AllRecorded<'a>> {
    const RECORD: &str = "
UPDATE graph_nodes n SET executor = k.executor, executor_reason = k.reason, dispatched_at = $7
FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::text[], $8::bigint[])
    AS k(tenant, execution_id, node, attempt, executor, reason, place)
WHERE n.tenant = k.tenant AND n.execution_id = k.execution_id AND n.node = k.node AND n.attempt = k.attempt
  AND n.status = 'RUNNING'
RETURNING k.place, n.attempt, n.spec, n.children, n.instance_of, n.item";
    let mut last: BTreeMap<(&ExecutionKey, &NodeId, u32), usize> = BTreeMap::new();
    for (place, dispatch) in batch.iter().enumerate() {
        last.insert((&dispatch.execution, &dispatch.node, dispatch.attempt), place);
    }
    let places: Vec<usize> = last.into_values().collect();
    let each = || places.iter().map(|place| &batch[*place]);
    let keys: KeyColumns<'_> = each().map(|dispatch| &dispatch.execution).collect();
    let rows = keys
        .bound(RECORD)
        .bind(each().map(|dispatch| dispatch.node.as_str()).collect::<Vec<_>>())
        .bind(each().map(|dispatch| i64::from(dispatch.attempt)).collect::<Vec<_>>())
        .bind(each().map(|dispatch| decode::strip_nul(&dispatch.executor)).collect::<Vec<_>>())
        .bind(each().map(|dispatch| decode::strip_nul(&dispatch.reason)).collect::<Vec<_>>())
        .bind(now.as_millis())
        .bind(places.iter().map(|place| i64::try_from(*place).unwrap_or(i64::MAX)).collect::<Vec<_>>())
        .fetch_all(connection)
        .await?;
    let mut recorded = HashMap::with_capacity(rows.len());
    for row in &rows {
        let place = usize::try_from(row.try_get::<i64, _>("place")?).unwrap_or(usize::MAX);
        let Some(dispatch) = batch.get(place) else { continue };
        let spec = decode::json(row, "spec")?;
        let mut children: Vec<NodeId> = decode::list(row, "children")?;
        children.sort();
        let node = RecordedDispatch {
            attempt: decode::number(row, "attempt")?,
            parents: node_request::decode_parents(&spec).map_err(undecodable_spec)?,
            children,
            instance: decode::instance(row)?,
            spec,
        };
        recorded.insert((&dispatch.execution, &dispatch.node), node);
    }
    Ok(recorded)
}

fn undecodable_spec(error: millstream_store::StoreError) -> PostgresFailure {
    PostgresFailure::Undecodable(error.to_string())
}

/// The feed entries, per execution, in the order of the batch.
fn feed_bodies<'a>(
    batch: &'a [NodeDispatch],
    recorded: &AllRecorded<'a>,
) -> Vec<(&'a ExecutionKey, RawJson)> {
    let mut told: BTreeMap<&ExecutionKey, Vec<&NodeDispatch>> = BTreeMap::new();
    for dispatch in batch {
        let node = recorded.get(&(&dispatch.execution, &dispatch.node));
        if node.is_some_and(|node| node.attempt == dispatch.attempt) {
            told.entry(&dispatch.execution).or_default().push(dispatch);
        }
    }
    told.into_iter().map(|(execution, all)| (execution, node_request::dispatch_entry_body(all))).collect()
}
