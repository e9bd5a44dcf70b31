//! Upstream and downstream of dispatched nodes: one statement for a whole batch.
//!
//! Nodes of one execution with the same parents (the instances of a fan-out have them) share one read.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use millstream_model::id::ExecutionKey;
use millstream_store::graph_store::UpstreamResult;
use millstream_store::node_request::{self, MAX_DOWNSTREAM};
use millstream_workflow::graph::NodeId;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use crate::decode;
use crate::errors::{PostgresFailure, PostgresResult};

/// What to read, each once.
#[derive(Debug, Default)]
pub(crate) struct NeighbourRequest<'a> {
    joins: BTreeSet<(&'a ExecutionKey, &'a [NodeId])>,
    children: BTreeSet<(&'a ExecutionKey, &'a NodeId)>,
}

impl<'a> NeighbourRequest<'a> {
    pub(crate) fn add_node(
        &mut self,
        execution: &'a ExecutionKey,
        parents: &'a [NodeId],
        children: &'a [NodeId],
    ) {
        if !parents.is_empty() {
            self.joins.insert((execution, parents));
        }
        self.children.extend(children.iter().take(MAX_DOWNSTREAM).map(|child| (execution, child)));
    }
}

/// The rows that were read.
#[derive(Debug, Default)]
pub(crate) struct NodeNeighbours<'a> {
    upstream: HashMap<(&'a ExecutionKey, &'a [NodeId]), Vec<UpstreamResult>>,
    goals: HashMap<(&'a ExecutionKey, &'a NodeId), String>,
}

impl NodeNeighbours<'_> {
    pub(crate) fn upstream(&self, execution: &ExecutionKey, parents: &[NodeId]) -> Vec<UpstreamResult> {
        self.upstream.get(&(execution, parents)).cloned().unwrap_or_default()
    }

    pub(crate) fn downstream(&self, execution: &ExecutionKey, children: &[NodeId]) -> Vec<(NodeId, String)> {
        let goal = |child: &NodeId| Some((child.clone(), self.goals.get(&(execution, child))?.clone()));
        children.iter().filter_map(goal).take(MAX_DOWNSTREAM).collect()
    }
}

/// Parents are followed by their instances; ordering by length and name puts these in the order of their
/// numbers.
pub(crate) async fn read_neighbours<'a>(
    connection: &mut PgConnection,
    wanted: &NeighbourRequest<'a>,
    result_bytes: usize,
) -> PostgresResult<NodeNeighbours<'a>> {
    const READ: &str = "
SELECT u.place, u.ord, u.rank, u.node, u.status, u.instance_of, u.bytes,
       CASE WHEN u.sum <= $6 THEN u.result END AS body
FROM (
    SELECT k.place, k.ord, n.node, n.status, n.instance_of, n.result, n.rank,
           coalesce(octet_length(n.result), 0)::bigint AS bytes,
           sum(coalesce(octet_length(n.result), 0))
               OVER (PARTITION BY k.place ORDER BY k.ord, n.rank, n.node ROWS UNBOUNDED PRECEDING) AS sum
    FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[])
        AS k(place, ord, tenant, execution_id, node)
    CROSS JOIN LATERAL (
        SELECT p.node, p.status, p.instance_of, p.result, 0 AS rank FROM graph_nodes p
        WHERE p.tenant = k.tenant AND p.execution_id = k.execution_id AND p.node = k.node
        UNION ALL
        SELECT i.node, i.status, i.instance_of, i.result, octet_length(i.node) FROM graph_nodes i
        WHERE i.tenant = k.tenant AND i.execution_id = k.execution_id
          AND i.node > k.node || '.' AND i.node < k.node || '/' AND i.instance_of = k.node
        OFFSET 0) n
) u
UNION ALL
SELECT k.place, 0, 0, n.node, NULL, NULL, NULL, n.spec
FROM unnest($7::bigint[], $8::text[], $9::text[], $10::text[]) AS k(place, tenant, execution_id, node)
CROSS JOIN LATERAL (
    SELECT n.node, n.spec FROM graph_nodes n
    WHERE n.tenant = k.tenant AND n.execution_id = k.execution_id AND n.node = k.node OFFSET 0) n
ORDER BY place, ord, rank, node";
    let joins: Vec<_> = wanted.joins.iter().copied().collect();
    let children: Vec<_> = wanted.children.iter().copied().collect();
    if joins.is_empty() && children.is_empty() {
        return Ok(NodeNeighbours::default());
    }
    let parents: Vec<(i64, i64, &ExecutionKey, &NodeId)> = (0..)
        .zip(&joins)
        .flat_map(|(place, (execution, parents))| {
            (0..).zip(*parents).map(move |(ord, parent)| (place, ord, *execution, parent))
        })
        .collect();
    let rows = sqlx::query(READ)
        .bind(parents.iter().map(|(place, ..)| *place).collect::<Vec<_>>())
        .bind(parents.iter().map(|(_, ord, ..)| *ord).collect::<Vec<_>>())
        .bind(parents.iter().map(|(.., execution, _)| execution.tenant.as_str()).collect::<Vec<_>>())
        .bind(parents.iter().map(|(.., execution, _)| execution.execution.as_str()).collect::<Vec<_>>())
        .bind(parents.iter().map(|(.., parent)| parent.as_str()).collect::<Vec<_>>())
        .bind(i64::try_from(result_bytes).unwrap_or(i64::MAX))
        .bind((0i64..).take(children.len()).collect::<Vec<_>>())
        .bind(children.iter().map(|(execution, _)| execution.tenant.as_str()).collect::<Vec<_>>())
        .bind(children.iter().map(|(execution, _)| execution.execution.as_str()).collect::<Vec<_>>())
        .bind(children.iter().map(|(_, child)| child.as_str()).collect::<Vec<_>>())
        .fetch_all(connection)
        .await?;
    let mut found: BTreeMap<usize, Vec<UpstreamResult>> = BTreeMap::new();
    let mut around = NodeNeighbours::default();
    for row in &rows {
        let place = usize::try_from(row.try_get::<i64, _>("place")?).unwrap_or(usize::MAX);
        if row.try_get::<Option<i64>, _>("bytes")?.is_some() {
            found.entry(place).or_default().push(decode_upstream(row)?);
        } else if let Some(child) = children.get(place) {
            let goal = node_request::decode_goal(&decode::json(row, "body")?);
            let goal = goal.map_err(|error| PostgresFailure::Undecodable(error.to_string()))?;
            around.goals.insert(*child, goal);
        }
    }
    let joined = |(place, upstream): (usize, Vec<UpstreamResult>)| Some((*joins.get(place)?, upstream));
    around.upstream = found.into_iter().filter_map(joined).collect();
    Ok(around)
}

fn decode_upstream(row: &PgRow) -> PostgresResult<UpstreamResult> {
    Ok(UpstreamResult {
        node: decode::parsed(row, "node")?,
        status: decode::parsed(row, "status")?,
        instance_of: decode::parsed_option(row, "instance_of")?,
        result: decode::json_option(row, "body")?,
        result_bytes: usize::try_from(row.try_get::<i64, _>("bytes")?).unwrap_or(usize::MAX),
    })
}
