//! Rows that starts and commits write about graphs, and the feed: one statement each, all rows at once.
//!
//! Every write to rows of a graph holds its row in `graphs`, several in the order of their keys. A feed
//! position is drawn only under that lock, so the entries of one execution become visible in the order of
//! their positions.

use std::collections::HashMap;

use millstream_model::id::{ExecutionKey, Seq};
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_store::execution_store::ExecutionCommit;
use millstream_store::graph_store::{GraphRows, NodeWrite};
use millstream_workflow::graph::NodeId;
use sqlx::{PgConnection, Row};

use crate::decode;
use crate::errors::{PostgresFailure, PostgresResult};
use crate::execution_store::KeyColumns;
use crate::node_columns::NodeColumns;

/// Rows per statement: a graph of ten thousand nodes needs a few of them.
const CHUNK: usize = 2_000;

/// Starting graphs: all of their rows are new.
pub(crate) async fn start(
    connection: &mut PgConnection,
    graphs: &[(&ExecutionKey, &GraphRows)],
    now: Timestamp,
) -> PostgresResult<()> {
    const INSERT: &str = "
INSERT INTO graphs (tenant, execution_id, metadata, revision, blob)
SELECT k.* FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bytea[])
    AS k(tenant, execution_id, metadata, revision, blob)";
    if graphs.is_empty() {
        return Ok(());
    }
    let keys: KeyColumns<'_> = graphs.iter().map(|(key, _)| *key).collect();
    let each = || graphs.iter().map(|(_, rows)| *rows);
    keys.bound(INSERT)
        .bind(each().map(|rows| rows.metadata.as_ref().map_or("null", RawJson::as_str)).collect::<Vec<_>>())
        .bind(each().map(|rows| i64::from(rows.revision)).collect::<Vec<_>>())
        .bind(each().map(|rows| rows.blob.as_deref().unwrap_or_default()).collect::<Vec<_>>())
        .execute(&mut *connection)
        .await?;
    let nodes: Vec<_> = nodes_of(graphs).collect();
    let inserted = insert_nodes(connection, &nodes).await?;
    check_written(&nodes, inserted)?;
    let entries: Vec<_> = graphs.iter().map(|(key, _)| (*key, Seq::FIRST, Seq::FIRST)).collect();
    feed_transitions(connection, &entries, now).await
}

/// Applies commits to graphs. Called after all their other writes, because dispatches wait for the lock that
/// is taken here.
pub(crate) async fn commit(
    connection: &mut PgConnection,
    commits: &[&ExecutionCommit],
    now: Timestamp,
) -> PostgresResult<()> {
    let graphs: Vec<(&ExecutionKey, &GraphRows)> =
        commits.iter().filter_map(|commit| Some((&commit.execution, commit.graph.as_deref()?))).collect();
    if graphs.is_empty() {
        return Ok(());
    }
    let revisions = lock(connection, graphs.iter().map(|(key, _)| *key)).await?;
    let changed: Vec<_> = graphs
        .iter()
        .copied()
        .filter(|(key, rows)| rows.blob.is_some() || revisions.get(key) != Some(&i64::from(rows.revision)))
        .collect();
    update_graphs(connection, &changed).await?;
    let deleted: Vec<(&ExecutionKey, &NodeId)> =
        graphs.iter().flat_map(|(key, rows)| rows.deleted.iter().map(|node| (*key, node))).collect();
    delete_nodes(connection, &deleted).await?;
    let nodes: Vec<_> = nodes_of(&graphs).collect();
    let updated = update_nodes(connection, &nodes).await?;
    let specified: Vec<_> = nodes.iter().copied().filter(|(_, node)| node.spec.is_some()).collect();
    let inserted = insert_nodes(connection, &specified).await?;
    check_written(&nodes, updated + inserted)?;
    let entries: Vec<_> = commits
        .iter()
        .filter(|commit| commit.graph.is_some())
        .filter_map(|commit| {
            let (first, last) = (commit.transitions.first()?, commit.transitions.last()?);
            Some((&commit.execution, first.seq, last.seq))
        })
        .collect();
    feed_transitions(connection, &entries, now).await
}

fn nodes_of<'a>(
    graphs: &[(&'a ExecutionKey, &'a GraphRows)],
) -> impl Iterator<Item = (&'a ExecutionKey, &'a NodeWrite)> {
    graphs.iter().flat_map(|(key, rows)| rows.nodes.iter().map(|node| (*key, node)))
}

/// Locks graphs, in the order of their keys, and returns their revisions.
pub(crate) async fn lock<'a>(
    connection: &mut PgConnection,
    executions: impl IntoIterator<Item = &'a ExecutionKey>,
) -> PostgresResult<HashMap<ExecutionKey, i64>> {
    const LOCK: &str = "
SELECT g.*
FROM (SELECT DISTINCT u.tenant COLLATE \"C\" AS tenant, u.execution_id COLLATE \"C\" AS execution_id
      FROM unnest($1::text[], $2::text[]) AS u(tenant, execution_id) ORDER BY 1, 2) k
CROSS JOIN LATERAL (
    SELECT g.tenant, g.execution_id, g.revision FROM graphs g
    WHERE g.tenant = k.tenant AND g.execution_id = k.execution_id
    FOR NO KEY UPDATE) g";
    let keys: KeyColumns<'_> = executions.into_iter().collect();
    let rows = keys.bound(LOCK).fetch_all(connection).await?;
    rows.iter().map(|row| Ok((decode::execution_key(row)?, row.try_get("revision")?))).collect()
}

async fn update_graphs(
    connection: &mut PgConnection,
    graphs: &[(&ExecutionKey, &GraphRows)],
) -> PostgresResult<()> {
    const UPDATE: &str = "
UPDATE graphs g SET revision = k.revision, blob = coalesce(k.blob, g.blob)
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bytea[]) AS k(tenant, execution_id, revision, blob)
WHERE g.tenant = k.tenant AND g.execution_id = k.execution_id";
    if graphs.is_empty() {
        return Ok(());
    }
    let keys: KeyColumns<'_> = graphs.iter().map(|(key, _)| *key).collect();
    keys.bound(UPDATE)
        .bind(graphs.iter().map(|(_, rows)| i64::from(rows.revision)).collect::<Vec<_>>())
        .bind(graphs.iter().map(|(_, rows)| rows.blob.as_deref()).collect::<Vec<_>>())
        .execute(connection)
        .await?;
    Ok(())
}

/// Refuses a node that has neither a row nor a spec, and one that occurs twice.
fn check_written(nodes: &[(&ExecutionKey, &NodeWrite)], written: u64) -> PostgresResult<()> {
    if usize::try_from(written).is_ok_and(|written| written == nodes.len()) {
        return Ok(());
    }
    Err(PostgresFailure::Undecodable(format!(
        "only {written} of {} node changes could be written",
        nodes.len()
    )))
}

/// Inserts new ones; existing ones were updated before. Returns how many.
async fn insert_nodes(
    connection: &mut PgConnection,
    nodes: &[(&ExecutionKey, &NodeWrite)],
) -> PostgresResult<u64> {
    const INSERT: &str = "
INSERT INTO graph_nodes (tenant, execution_id, node, status, attempt, seq, why, spec, children, result, error,
                         started_at, ended_at, instance_of, item)
SELECT k.tenant, k.execution_id, k.node, k.status, k.attempt, k.seq, k.why, k.spec, coalesce(k.children, '[]'),
       k.result, k.error, k.started_at, k.ended_at, k.instance_of, k.item
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::text[], $8::text[],
            $9::text[], $10::text[], $11::text[], $12::bigint[], $13::bigint[], $14::text[], $15::text[])
    AS k(tenant, execution_id, node, status, attempt, seq, why, spec, children, result, error, started_at,
         ended_at, instance_of, item)
ON CONFLICT (execution_id, tenant, node) DO NOTHING";
    let mut inserted = 0;
    for chunk in nodes.chunks(CHUNK) {
        let columns = NodeColumns::of(chunk);
        let done = columns
            .bound(INSERT)
            .bind(chunk.iter().map(|(_, node)| Some(node.instance.as_ref()?.0.as_str())).collect::<Vec<_>>())
            .bind(chunk.iter().map(|(_, node)| Some(node.instance.as_ref()?.1.as_str())).collect::<Vec<_>>())
            .execute(&mut *connection)
            .await?;
        inserted += done.rows_affected();
    }
    Ok(inserted)
}

/// A null column keeps its value, except `why`. Returns how many exist.
async fn update_nodes(
    connection: &mut PgConnection,
    nodes: &[(&ExecutionKey, &NodeWrite)],
) -> PostgresResult<u64> {
    const UPDATE: &str = "
UPDATE graph_nodes n
SET status = k.status, attempt = k.attempt, seq = k.seq, why = k.why, spec = coalesce(k.spec, n.spec),
    children = coalesce(k.children, n.children), result = coalesce(k.result, n.result),
    error = coalesce(k.error, n.error), started_at = coalesce(k.started_at, n.started_at),
    ended_at = coalesce(k.ended_at, n.ended_at)
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::text[], $8::text[],
            $9::text[], $10::text[], $11::text[], $12::bigint[], $13::bigint[])
    AS k(tenant, execution_id, node, status, attempt, seq, why, spec, children, result, error, started_at,
         ended_at)
WHERE n.tenant = k.tenant AND n.execution_id = k.execution_id AND n.node = k.node";
    let mut updated = 0;
    for chunk in nodes.chunks(CHUNK) {
        let columns = NodeColumns::of(chunk);
        updated += columns.bound(UPDATE).execute(&mut *connection).await?.rows_affected();
    }
    Ok(updated)
}

/// Their logs stay: they may have run before the edit removed them.
async fn delete_nodes(
    connection: &mut PgConnection,
    nodes: &[(&ExecutionKey, &NodeId)],
) -> PostgresResult<()> {
    const DELETE: &str = "
DELETE FROM graph_nodes n
USING unnest($1::text[], $2::text[], $3::text[]) AS k(tenant, execution_id, node)
WHERE n.tenant = k.tenant AND n.execution_id = k.execution_id AND n.node = k.node";
    if nodes.is_empty() {
        return Ok(());
    }
    let keys: KeyColumns<'_> = nodes.iter().map(|(key, _)| *key).collect();
    keys.bound(DELETE)
        .bind(nodes.iter().map(|(_, node)| node.as_str()).collect::<Vec<_>>())
        .execute(connection)
        .await?;
    Ok(())
}

/// The transitions of commits, both included. Their graphs are locked.
async fn feed_transitions(
    connection: &mut PgConnection,
    entries: &[(&ExecutionKey, Seq, Seq)],
    now: Timestamp,
) -> PostgresResult<()> {
    const FEED: &str = "
INSERT INTO graph_feed (tenant, execution_id, kind, first_seq, last_seq, at)
SELECT k.tenant, k.execution_id, 'transitions', k.first_seq, k.last_seq, $5
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[]) AS k(tenant, execution_id, first_seq, last_seq)";
    if entries.is_empty() {
        return Ok(());
    }
    let keys: KeyColumns<'_> = entries.iter().map(|(key, ..)| *key).collect();
    keys.bound(FEED)
        .bind(entries.iter().map(|(_, first, _)| first.0).collect::<Vec<_>>())
        .bind(entries.iter().map(|(.., last)| last.0).collect::<Vec<_>>())
        .bind(now.as_millis())
        .execute(connection)
        .await?;
    Ok(())
}

/// Their graphs are locked.
pub(crate) async fn feed_dispatched(
    connection: &mut PgConnection,
    entries: &[(&ExecutionKey, RawJson)],
    now: Timestamp,
) -> PostgresResult<()> {
    const FEED: &str = "
INSERT INTO graph_feed (tenant, execution_id, kind, body, at)
SELECT k.tenant, k.execution_id, 'dispatched', k.body, $4
FROM unnest($1::text[], $2::text[], $3::text[]) AS k(tenant, execution_id, body)";
    if entries.is_empty() {
        return Ok(());
    }
    let keys: KeyColumns<'_> = entries.iter().map(|(key, _)| *key).collect();
    keys.bound(FEED)
        .bind(entries.iter().map(|(_, body)| body.as_str()).collect::<Vec<_>>())
        .bind(now.as_millis())
        .execute(connection)
        .await?;
    Ok(())
}
