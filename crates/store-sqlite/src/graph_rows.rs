//! Rows that starts, commits and dispatches write about graphs, one function per statement.

use millstream_model::id::{ExecutionKey, Name, Seq};
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_store::graph_store::{GraphRows, NodeWrite};
use millstream_workflow::graph::NodeId;
use rusqlite::{Connection, params};

use crate::errors::{SqliteResult, corrupt_row};
use crate::param::{encode_names, message_text};

/// A starting graph: all of its rows are new.
pub(crate) fn insert_graph(
    connection: &Connection,
    key: &ExecutionKey,
    rows: &GraphRows,
) -> SqliteResult<()> {
    const INSERT_GRAPH: &str = "
        INSERT INTO graphs (tenant, execution_id, metadata, revision, blob) VALUES (?1, ?2, ?3, ?4, ?5)";
    connection.prepare_cached(INSERT_GRAPH)?.execute((
        key.tenant.as_str(),
        key.execution.as_str(),
        rows.metadata.as_ref().map_or("null", RawJson::as_str),
        rows.revision,
        rows.blob.as_deref().unwrap_or_default(),
    ))?;
    for node in &rows.nodes {
        insert_node(connection, key, node)?;
    }
    Ok(())
}

/// Applies a commit to a graph.
pub(crate) fn write_graph(connection: &Connection, key: &ExecutionKey, rows: &GraphRows) -> SqliteResult<()> {
    // Hardly any commit changes this row: a blob is large, and its pages would be written again.
    const UPDATE_GRAPH: &str = "
        UPDATE graphs SET revision = ?3, blob = coalesce(?4, blob)
        WHERE tenant = ?1 AND execution_id = ?2 AND (revision <> ?3 OR ?4 IS NOT NULL)";
    connection.prepare_cached(UPDATE_GRAPH)?.execute((
        key.tenant.as_str(),
        key.execution.as_str(),
        rows.revision,
        rows.blob.as_deref(),
    ))?;
    for node in &rows.deleted {
        delete_node(connection, key, node)?;
    }
    for node in &rows.nodes {
        if !update_node(connection, key, node)? {
            insert_node(connection, key, node)?;
        }
    }
    Ok(())
}

fn insert_node(connection: &Connection, key: &ExecutionKey, node: &NodeWrite) -> SqliteResult<()> {
    const INSERT_NODE: &str = "
        INSERT INTO graph_nodes (tenant, execution_id, node, status, attempt, seq, why, spec, children,
                                 instance_of, item, result, error, started_at, ended_at)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)";
    let missing = || corrupt_row(format!("node {} is new and has no spec", node.node));
    connection.prepare_cached(INSERT_NODE)?.execute(params![
        key.tenant.as_str(),
        key.execution.as_str(),
        node.node.as_str(),
        node.status.as_str(),
        node.attempt,
        node.seq.0,
        message_text(node.why.as_deref()),
        node.spec.as_ref().ok_or_else(missing)?.as_str(),
        encode_names(node.children.as_deref().unwrap_or_default())?,
        node.instance.as_ref().map(|(of, _)| of.as_str()),
        node.instance.as_ref().map(|(_, item)| item.as_str()),
        node.result.as_ref().map(RawJson::as_str),
        message_text(node.error.as_deref()),
        node.started_at.map(Timestamp::as_millis),
        node.ended_at.map(Timestamp::as_millis),
    ])?;
    Ok(())
}

/// `false` where there is no such row. A field that is `None` keeps its value, except `why`.
fn update_node(connection: &Connection, key: &ExecutionKey, node: &NodeWrite) -> SqliteResult<bool> {
    const UPDATE_NODE: &str = "
        UPDATE graph_nodes SET
            status = ?4, attempt = ?5, seq = ?6, why = ?7, spec = coalesce(?8, spec),
            children = coalesce(?9, children), result = coalesce(?10, result), error = coalesce(?11, error),
            started_at = coalesce(?12, started_at), ended_at = coalesce(?13, ended_at)
        WHERE tenant = ?1 AND execution_id = ?2 AND node = ?3";
    let updated = connection.prepare_cached(UPDATE_NODE)?.execute((
        key.tenant.as_str(),
        key.execution.as_str(),
        node.node.as_str(),
        node.status.as_str(),
        node.attempt,
        node.seq.0,
        message_text(node.why.as_deref()),
        node.spec.as_ref().map(RawJson::as_str),
        node.children.as_deref().map(encode_names).transpose()?,
        node.result.as_ref().map(RawJson::as_str),
        message_text(node.error.as_deref()),
        node.started_at.map(Timestamp::as_millis),
        node.ended_at.map(Timestamp::as_millis),
    ))?;
    Ok(updated > 0)
}

/// Its logs stay: it may have run before the edit removed it.
fn delete_node(connection: &Connection, key: &ExecutionKey, node: &NodeId) -> SqliteResult<()> {
    const DELETE_NODE: &str = "DELETE FROM graph_nodes WHERE tenant = ?1 AND execution_id = ?2 AND node = ?3";
    let place = (key.tenant.as_str(), key.execution.as_str(), Name::as_str(node));
    connection.prepare_cached(DELETE_NODE)?.execute(place)?;
    Ok(())
}

/// The transitions of a commit, both included.
pub(crate) fn feed_transitions(
    connection: &Connection,
    key: &ExecutionKey,
    first: Seq,
    last: Seq,
    now: Timestamp,
) -> SqliteResult<()> {
    const FEED_TRANSITIONS: &str = "
        INSERT INTO graph_feed (tenant, execution_id, kind, first_seq, last_seq, at)
        VALUES (?1, ?2, 'transitions', ?3, ?4, ?5)";
    connection.prepare_cached(FEED_TRANSITIONS)?.execute((
        key.tenant.as_str(),
        key.execution.as_str(),
        first.0,
        last.0,
        now.as_millis(),
    ))?;
    Ok(())
}

pub(crate) fn feed_dispatched(
    connection: &Connection,
    key: &ExecutionKey,
    body: &RawJson,
    now: Timestamp,
) -> SqliteResult<()> {
    const FEED_DISPATCHED: &str = "
        INSERT INTO graph_feed (tenant, execution_id, kind, body, at) VALUES (?1, ?2, 'dispatched', ?3, ?4)";
    connection.prepare_cached(FEED_DISPATCHED)?.execute((
        key.tenant.as_str(),
        key.execution.as_str(),
        body.as_str(),
        now.as_millis(),
    ))?;
    Ok(())
}
