//! Reads for doorbells: where events belong, and which executions have something to decide.

use millstream_model::id::{DefinitionRef, ExecutionKey};
use millstream_model::overdue_sweep::SweepBand;
use millstream_model::time::Timestamp;
use rusqlite::Connection;

use crate::decode::SqliteFields;
use crate::errors::SqliteResult;

pub(crate) fn read_targets(
    connection: &Connection,
    executions: &[ExecutionKey],
) -> SqliteResult<Vec<Option<DefinitionRef>>> {
    const READ_TARGET: &str =
        "SELECT definition, version FROM executions WHERE tenant = ?1 AND execution_id = ?2";
    let mut read = connection.prepare_cached(READ_TARGET)?;
    executions
        .iter()
        .map(|key| {
            let mut rows = read.query((key.tenant.as_str(), key.execution.as_str()))?;
            rows.next()?.map(|row| SqliteFields(row).definition()).transpose()
        })
        .collect()
}

/// In the order of the mailbox, which is the order of keys: a page ends where it is full.
pub(crate) fn read_undecided(
    connection: &Connection,
    bands: Option<&[SweepBand]>,
    after: Option<&ExecutionKey>,
    limit: usize,
) -> SqliteResult<Vec<ExecutionKey>> {
    const READ_UNDECIDED: &str = "
        SELECT m.tenant, m.execution_id, m.created_at
        FROM mailbox AS m
        CROSS JOIN executions AS x ON x.tenant = m.tenant AND x.execution_id = m.execution_id
        WHERE (m.tenant, m.execution_id) > (?1, ?2) AND m.deferred = 0
          AND (x.paused_reason IS NULL OR m.cancels = 1)
        ORDER BY m.tenant, m.execution_id, m.accept_no";
    let mut read = connection.prepare_cached(READ_UNDECIDED)?;
    let mut rows = read.query((
        after.map_or("", |key| key.tenant.as_str()),
        after.map_or("", |key| key.execution.as_str()),
    ))?;
    let mut found: Vec<ExecutionKey> = Vec::new();
    while found.len() < limit
        && let Some(row) = rows.next()?
    {
        let row = SqliteFields(row);
        if !is_within(bands, row.time(2)?) {
            continue;
        }
        let (tenant, execution) = (row.text(0)?, row.text(1)?);
        let is_new = found
            .last()
            .is_none_or(|last| last.tenant.as_str() != tenant || last.execution.as_str() != execution);
        if is_new {
            found.push(row.execution()?);
        }
    }
    Ok(found)
}

fn is_within(bands: Option<&[SweepBand]>, accepted: Timestamp) -> bool {
    bands.is_none_or(|bands| bands.iter().any(|band| band.after < accepted && accepted <= band.until))
}

pub(crate) fn have_work(connection: &Connection, executions: &[ExecutionKey]) -> SqliteResult<Vec<bool>> {
    const HAS_WORK: &str = "
        SELECT EXISTS (
            SELECT 1 FROM executions AS x
            CROSS JOIN mailbox AS m ON m.tenant = x.tenant AND m.execution_id = x.execution_id
            WHERE x.tenant = ?1 AND x.execution_id = ?2
              AND m.deferred = 0 AND (x.paused_reason IS NULL OR m.cancels = 1))";
    let mut has_work = connection.prepare_cached(HAS_WORK)?;
    executions
        .iter()
        .map(|key| Ok(has_work.query_row((key.tenant.as_str(), key.execution.as_str()), |row| row.get(0))?))
        .collect()
}
