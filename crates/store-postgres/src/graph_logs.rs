//! Logs of executors. Locks: the graphs.

use std::collections::HashMap;

use millstream_model::id::ExecutionKey;
use millstream_model::time::Timestamp;
use millstream_store::graph_store::ExecutorLogText;
use millstream_store::log_cap::{LogAddition, LogUsage};
use millstream_workflow::graph::NodeId;
use sqlx::{PgConnection, Row};

use crate::connection_cache::WarmConnections;
use crate::errors::PostgresResult;
use crate::execution_store::KeyColumns;
use crate::{decode, graph_rows};

/// One attempt at one node.
type AttemptKey<'a> = (&'a ExecutionKey, &'a NodeId, u32);

/// The stored log of an attempt: the position of the last entry, and its size.
#[derive(Debug, Clone, Copy, Default)]
struct LastLogEntry {
    position: Option<i64>,
    kept: LogUsage,
}

/// An entry to be written.
struct LogEntryInsert<'a> {
    log: &'a ExecutorLogText,
    text: std::borrow::Cow<'a, str>,
    kept: LogUsage,
}

pub(crate) async fn append_texts(
    warm: &WarmConnections,
    logs: &[ExecutorLogText],
    now: Timestamp,
) -> PostgresResult<()> {
    let mut held = warm.hold_pooled().await?;
    let mut transaction = held.begin().await?;
    graph_rows::lock(&mut transaction, logs.iter().map(|log| &log.execution)).await?;
    let mut lasts = read_last(&mut transaction, logs).await?;
    let (mut entries, mut marked) = (Vec::new(), Vec::new());
    // Index of an attempt's last entry within this batch, if it has one.
    let mut newest: HashMap<AttemptKey<'_>, usize> = HashMap::new();
    for log in logs {
        // Missing: the execution or the node is gone.
        let key = (&log.execution, &log.node, log.attempt);
        let Some(last) = lasts.get_mut(&key) else { continue };
        match last.kept.add_text(&log.text) {
            LogAddition::Entry(text, kept) => {
                last.kept = kept;
                newest.insert(key, entries.len());
                entries.push(LogEntryInsert { log, text, kept });
            }
            LogAddition::Mark => {
                last.kept.truncated = true;
                match newest.get(&key).and_then(|place| entries.get_mut(*place)) {
                    Some(entry) => entry.kept.truncated = true,
                    None => marked.extend(last.position.map(|position| (log, position))),
                }
            }
            LogAddition::Nothing => {}
        }
    }
    mark(&mut transaction, &marked).await?;
    insert(&mut transaction, &entries, now).await?;
    transaction.commit().await?;
    Ok(())
}

/// For attempts at existing nodes. The last entry of an attempt records how much is stored of it.
async fn read_last<'a>(
    connection: &mut PgConnection,
    logs: &'a [ExecutorLogText],
) -> PostgresResult<HashMap<AttemptKey<'a>, LastLogEntry>> {
    const READ: &str = "
SELECT k.place, l.position, l.kept, l.truncated
FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[])
    AS k(tenant, execution_id, node, attempt, place)
CROSS JOIN LATERAL (
    SELECT FROM graph_nodes n
    WHERE n.tenant = k.tenant AND n.execution_id = k.execution_id AND n.node = k.node OFFSET 0) n
LEFT JOIN LATERAL (
    SELECT l.position, l.kept, l.truncated FROM graph_logs l
    WHERE l.tenant = k.tenant AND l.execution_id = k.execution_id AND l.node = k.node AND l.attempt = k.attempt
    ORDER BY l.position DESC LIMIT 1) l ON TRUE";
    let mut attempts: HashMap<AttemptKey<'a>, i64> = HashMap::new();
    for (log, place) in logs.iter().zip(0..) {
        attempts.entry((&log.execution, &log.node, log.attempt)).or_insert(place);
    }
    let asked: Vec<(AttemptKey<'a>, i64)> = attempts.into_iter().collect();
    let keys: KeyColumns<'_> = asked.iter().map(|((execution, ..), _)| *execution).collect();
    let rows = keys
        .bound(READ)
        .bind(asked.iter().map(|((_, node, _), _)| node.as_str()).collect::<Vec<_>>())
        .bind(asked.iter().map(|((.., attempt), _)| i64::from(*attempt)).collect::<Vec<_>>())
        .bind(asked.iter().map(|(_, place)| *place).collect::<Vec<_>>())
        .fetch_all(connection)
        .await?;
    let mut lasts = HashMap::with_capacity(rows.len());
    for row in &rows {
        let place = usize::try_from(row.try_get::<i64, _>("place")?).unwrap_or(usize::MAX);
        let Some(log) = logs.get(place) else { continue };
        let bytes = row.try_get::<Option<i64>, _>("kept")?.unwrap_or(0);
        let kept = LogUsage {
            bytes: usize::try_from(bytes).unwrap_or(usize::MAX),
            truncated: row.try_get::<Option<bool>, _>("truncated")?.unwrap_or(false),
        };
        let last = LastLogEntry { position: row.try_get("position")?, kept };
        lasts.insert((&log.execution, &log.node, log.attempt), last);
    }
    Ok(lasts)
}

async fn insert(
    connection: &mut PgConnection,
    entries: &[LogEntryInsert<'_>],
    now: Timestamp,
) -> PostgresResult<()> {
    const INSERT: &str = "
INSERT INTO graph_logs (tenant, execution_id, node, attempt, text, kept, truncated, at)
SELECT k.tenant, k.execution_id, k.node, k.attempt, k.text, k.kept, k.truncated, $8
FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::bigint[], $7::boolean[])
    WITH ORDINALITY AS k(tenant, execution_id, node, attempt, text, kept, truncated, ord)
ORDER BY k.ord";
    if entries.is_empty() {
        return Ok(());
    }
    let keys: KeyColumns<'_> = entries.iter().map(|entry| &entry.log.execution).collect();
    keys.bound(INSERT)
        .bind(entries.iter().map(|entry| entry.log.node.as_str()).collect::<Vec<_>>())
        .bind(entries.iter().map(|entry| i64::from(entry.log.attempt)).collect::<Vec<_>>())
        .bind(entries.iter().map(|entry| decode::strip_nul(&entry.text)).collect::<Vec<_>>())
        .bind(
            entries
                .iter()
                .map(|entry| i64::try_from(entry.kept.bytes).unwrap_or(i64::MAX))
                .collect::<Vec<_>>(),
        )
        .bind(entries.iter().map(|entry| entry.kept.truncated).collect::<Vec<_>>())
        .bind(now.as_millis())
        .execute(connection)
        .await?;
    Ok(())
}

async fn mark(connection: &mut PgConnection, marked: &[(&ExecutorLogText, i64)]) -> PostgresResult<()> {
    const MARK: &str = "
UPDATE graph_logs l SET truncated = TRUE
FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) AS k(tenant, execution_id, node, position)
WHERE l.tenant = k.tenant AND l.execution_id = k.execution_id AND l.node = k.node AND l.position = k.position";
    if marked.is_empty() {
        return Ok(());
    }
    let keys: KeyColumns<'_> = marked.iter().map(|(log, _)| &log.execution).collect();
    keys.bound(MARK)
        .bind(marked.iter().map(|(log, _)| log.node.as_str()).collect::<Vec<_>>())
        .bind(marked.iter().map(|(_, position)| *position).collect::<Vec<_>>())
        .execute(connection)
        .await?;
    Ok(())
}
