//! Reads for doorbells: where events belong, and which executions have something to decide.

use std::collections::{HashMap, HashSet};

use millstream_model::id::{DefinitionRef, ExecutionKey};
use millstream_model::overdue_sweep::SweepBand;
use sqlx::PgPool;

use crate::connection_cache::WarmConnections;
use crate::decode;
use crate::errors::PostgresResult;
use crate::execution_store::KeyColumns;

pub(crate) async fn read_targets(
    warm: &WarmConnections,
    executions: &[ExecutionKey],
) -> PostgresResult<Vec<Option<DefinitionRef>>> {
    const READ: &str = "
SELECT x.*
FROM unnest($1::text[], $2::text[]) AS k(tenant, execution_id)
CROSS JOIN LATERAL (
    SELECT x.tenant, x.execution_id, x.definition, x.version
    FROM executions x WHERE x.tenant = k.tenant AND x.execution_id = k.execution_id OFFSET 0) x";
    let columns: KeyColumns<'_> = executions.iter().collect();
    let rows = warm.fetch_rows(columns.bound(READ)).await?;
    let found = rows
        .iter()
        .map(|row| Ok((decode::execution_key(row)?, decode::definition_ref(row)?)))
        .collect::<PostgresResult<HashMap<_, _>>>()?;
    Ok(executions.iter().map(|key| found.get(key).cloned()).collect())
}

/// In the order of the mailbox: a page ends where it is full.
pub(crate) async fn list_undecided(
    pool: &PgPool,
    bands: Option<&[SweepBand]>,
    after: Option<&ExecutionKey>,
    limit: usize,
) -> PostgresResult<Vec<ExecutionKey>> {
    const LIST: &str = "
SELECT DISTINCT m.execution_id, m.tenant
FROM mailbox m
JOIN executions x ON x.tenant = m.tenant AND x.execution_id = m.execution_id
WHERE NOT m.deferred AND (m.execution_id, m.tenant) > ($2, $1)
  AND ($3::bigint[] IS NULL OR EXISTS (
        SELECT FROM unnest($3::bigint[], $4::bigint[]) AS b(after, until)
        WHERE m.created_at > b.after AND m.created_at <= b.until))
  AND (x.paused_reason IS NULL OR m.cancels)
ORDER BY m.execution_id, m.tenant
LIMIT $5";
    let millis = |edge: fn(&SweepBand) -> i64| bands.map(|bands| bands.iter().map(edge).collect::<Vec<_>>());
    let rows = sqlx::query(LIST)
        .bind(after.map_or("", |key| key.tenant.as_str()))
        .bind(after.map_or("", |key| key.execution.as_str()))
        .bind(millis(|band| band.after.as_millis()))
        .bind(millis(|band| band.until.as_millis()))
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .fetch_all(pool)
        .await?;
    rows.iter().map(decode::execution_key).collect()
}

pub(crate) async fn find_work(
    warm: &WarmConnections,
    executions: &[ExecutionKey],
) -> PostgresResult<Vec<bool>> {
    const FIND: &str = "
SELECT x.tenant, x.execution_id
FROM unnest($1::text[], $2::text[]) AS k(tenant, execution_id)
CROSS JOIN LATERAL (
    SELECT x.* FROM executions x WHERE x.tenant = k.tenant AND x.execution_id = k.execution_id OFFSET 0) x
WHERE EXISTS (
    SELECT FROM mailbox m
    WHERE m.tenant = x.tenant AND m.execution_id = x.execution_id AND NOT m.deferred
      AND (x.paused_reason IS NULL OR m.cancels)
    OFFSET 0)";
    let columns: KeyColumns<'_> = executions.iter().collect();
    let rows = warm.fetch_rows(columns.bound(FIND)).await?;
    let found = rows.iter().map(decode::execution_key).collect::<PostgresResult<HashSet<_>>>()?;
    Ok(executions.iter().map(|key| found.contains(key)).collect())
}
