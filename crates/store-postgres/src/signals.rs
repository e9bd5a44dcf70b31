//! Buffered signals, and the lock that makes a signal and the execution with its correlation find each other.
//!
//! A signal looks for executions with its correlation and is buffered if there are none; a start or commit
//! that gives an execution a correlation looks for buffered signals. Without a lock either could look before
//! the other has written. So both take a lock of the correlation first of all, before any row: an advisory
//! lock, because there need not be a row. In one batch they are taken in the order of their hashes.

use std::collections::{BTreeSet, HashMap, HashSet};

use millstream_model::id::{DefinitionRef, EventId, ExecutionKey, Name, TenantId};
use millstream_model::time::Timestamp;
use millstream_store::event_log::SignalSubmission;
use millstream_store::execution_store::ExecutionCommit;
use sqlx::postgres::{PgArguments, PgExecutor, PgRow};
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres, Row};
use uuid::Uuid;

use crate::commit_tables::correlation_of;
use crate::decode;
use crate::errors::PostgresResult;
use crate::execution_store::KeyColumns;

/// Correlations as two arrays.
#[derive(Debug, Default)]
struct CorrelationColumns<'a> {
    tenants: Vec<&'a str>,
    correlations: Vec<&'a str>,
}

impl<'a> CorrelationColumns<'a> {
    fn of(correlations: impl IntoIterator<Item = (&'a TenantId, &'a str)>) -> Self {
        // Each once.
        let each: BTreeSet<(&TenantId, &str)> = correlations.into_iter().collect();
        let (tenants, correlations) = each.into_iter().map(|(tenant, text)| (tenant.as_str(), text)).unzip();
        Self { tenants, correlations }
    }

    fn is_empty(&self) -> bool {
        self.tenants.is_empty()
    }

    /// As `$1` and `$2`.
    fn bound<'q>(&'q self, sql: &'static str) -> Query<'q, Postgres, PgArguments> {
        sqlx::query(sql).bind(&self.tenants).bind(&self.correlations)
    }
}

/// Until the end of the transaction.
pub(crate) async fn lock_correlations<'a>(
    connection: &mut PgConnection,
    correlations: impl IntoIterator<Item = (&'a TenantId, &'a str)>,
) -> PostgresResult<()> {
    const LOCK: &str = "
SELECT pg_advisory_xact_lock(k.hash)
FROM (SELECT DISTINCT hashtextextended(u.correlation, hashtextextended(u.tenant, 0)) AS hash
      FROM unnest($1::text[], $2::text[]) AS u(tenant, correlation)
      ORDER BY hash) k";
    let columns = CorrelationColumns::of(correlations);
    if !columns.is_empty() {
        columns.bound(LOCK).execute(connection).await?;
    }
    Ok(())
}

/// Unfinished executions, by their correlations, in order.
pub(crate) type SignalTakers = HashMap<(TenantId, String), Vec<(ExecutionKey, Name)>>;

pub(crate) async fn read_takers<'a>(
    connection: &mut PgConnection,
    correlations: impl IntoIterator<Item = (&'a TenantId, &'a str)>,
) -> PostgresResult<SignalTakers> {
    const READ: &str = "
SELECT x.*
FROM unnest($1::text[], $2::text[]) AS k(tenant, correlation)
CROSS JOIN LATERAL (
    SELECT x.tenant, x.execution_id, x.correlation, x.definition
    FROM executions x
    WHERE x.tenant = k.tenant AND x.correlation = k.correlation AND x.ended_at IS NULL
    OFFSET 0) x
ORDER BY x.tenant, x.execution_id";
    let columns = CorrelationColumns::of(correlations);
    let mut takers = SignalTakers::new();
    if columns.is_empty() {
        return Ok(takers);
    }
    for row in &columns.bound(READ).fetch_all(connection).await? {
        let key = decode::execution_key(row)?;
        let correlation = (key.tenant.clone(), row.try_get("correlation")?);
        takers.entry(correlation).or_default().push((key, decode::parsed(row, "definition")?));
    }
    Ok(takers)
}

/// A stored signal.
#[derive(Debug, Clone)]
pub(crate) struct BufferedSignal {
    pub id: i64,
    /// Its idempotency key is not stored here.
    pub signal: SignalSubmission,
    pub created_at: Timestamp,
}

fn decode_signal(row: &PgRow) -> PostgresResult<BufferedSignal> {
    let signal = SignalSubmission {
        event_id: decode::event_id(row)?,
        tenant: decode::parsed(row, "tenant")?,
        correlation: row.try_get("correlation")?,
        definition: decode::parsed_option(row, "definition")?,
        name: decode::parsed(row, "name")?,
        payload: decode::json(row, "payload")?,
        idempotency: None,
        actor: row.try_get("actor")?,
        traceparent: row.try_get("traceparent")?,
        expires_at: decode::time(row, "expires_at")?,
    };
    Ok(BufferedSignal { id: row.try_get("id")?, signal, created_at: decode::time(row, "created_at")? })
}

/// Signals that wait for these correlations, in the order of acceptance.
pub(crate) async fn read_waiting<'a>(
    connection: &mut PgConnection,
    correlations: impl IntoIterator<Item = (&'a TenantId, &'a str)>,
    now: Timestamp,
) -> PostgresResult<Vec<BufferedSignal>> {
    const READ: &str = "
SELECT s.*
FROM unnest($1::text[], $2::text[]) AS k(tenant, correlation)
CROSS JOIN LATERAL (
    SELECT s.* FROM signals s
    WHERE s.tenant = k.tenant AND s.correlation = k.correlation AND s.expires_at > $3
    OFFSET 0) s
ORDER BY s.id";
    let columns = CorrelationColumns::of(correlations);
    if columns.is_empty() {
        return Ok(Vec::new());
    }
    let rows = columns.bound(READ).bind(now.as_millis()).fetch_all(connection).await?;
    rows.iter().map(decode_signal).collect()
}

/// The buffered ones of these signals.
pub(crate) async fn read_signals<'e>(
    executor: impl PgExecutor<'e>,
    keys: &[(TenantId, EventId)],
) -> PostgresResult<HashMap<(TenantId, EventId), BufferedSignal>> {
    const READ: &str = "
SELECT s.*
FROM unnest($1::text[], $2::uuid[]) AS k(tenant, event_id)
CROSS JOIN LATERAL (
    SELECT s.* FROM signals s WHERE s.tenant = k.tenant AND s.event_id = k.event_id OFFSET 0) s";
    if keys.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = sqlx::query(READ)
        .bind(keys.iter().map(|(tenant, _)| tenant.as_str()).collect::<Vec<_>>())
        .bind(keys.iter().map(|(_, event)| event.0).collect::<Vec<Uuid>>())
        .fetch_all(executor)
        .await?;
    rows.iter()
        .map(|row| {
            let stored = decode_signal(row)?;
            Ok(((stored.signal.tenant.clone(), stored.signal.event_id), stored))
        })
        .collect()
}

pub(crate) async fn known_signals(
    connection: &mut PgConnection,
    keys: &[(TenantId, EventId)],
) -> PostgresResult<HashSet<(TenantId, EventId)>> {
    Ok(read_signals(connection, keys).await?.into_keys().collect())
}

/// Returns how many were new. Their order is that of acceptance.
pub(crate) async fn insert(
    connection: &mut PgConnection,
    signals: &[&SignalSubmission],
    now: Timestamp,
) -> PostgresResult<usize> {
    const INSERT: &str = "
INSERT INTO signals (tenant, event_id, correlation, definition, name, payload, actor, traceparent, created_at,
                     expires_at)
SELECT k.tenant, k.event_id, k.correlation, k.definition, k.name, k.payload, k.actor, k.traceparent, $10,
       k.expires_at
FROM unnest($1::text[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
            $9::bigint[])
    WITH ORDINALITY
    AS k(tenant, event_id, correlation, definition, name, payload, actor, traceparent, expires_at, ord)
ORDER BY k.ord
ON CONFLICT (tenant, event_id) DO NOTHING";
    if signals.is_empty() {
        return Ok(0);
    }
    let each = || signals.iter();
    let done = sqlx::query(INSERT)
        .bind(each().map(|signal| signal.tenant.as_str()).collect::<Vec<_>>())
        .bind(each().map(|signal| signal.event_id.0).collect::<Vec<Uuid>>())
        .bind(each().map(|signal| signal.correlation.as_str()).collect::<Vec<_>>())
        .bind(each().map(|signal| signal.definition.as_ref().map(Name::as_str)).collect::<Vec<_>>())
        .bind(each().map(|signal| signal.name.as_str()).collect::<Vec<_>>())
        .bind(each().map(|signal| signal.payload.as_str()).collect::<Vec<_>>())
        .bind(each().map(|signal| signal.actor.as_deref()).collect::<Vec<_>>())
        .bind(each().map(|signal| signal.traceparent.as_deref()).collect::<Vec<_>>())
        .bind(each().map(|signal| signal.expires_at.as_millis()).collect::<Vec<_>>())
        .bind(now.as_millis())
        .execute(connection)
        .await?;
    Ok(usize::try_from(done.rows_affected()).unwrap_or(usize::MAX))
}

/// Removes signals that become events. Returns how many were still there.
pub(crate) async fn remove(connection: &mut PgConnection, ids: &[i64]) -> PostgresResult<usize> {
    const REMOVE: &str = "DELETE FROM signals s USING unnest($1::bigint[]) AS k(id) WHERE s.id = k.id";
    if ids.is_empty() {
        return Ok(0);
    }
    let done = sqlx::query(REMOVE).bind(ids).execute(connection).await?;
    Ok(usize::try_from(done.rows_affected()).unwrap_or(usize::MAX))
}

/// An execution that gets a correlation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CorrelatedExecution<'a> {
    execution: &'a ExecutionKey,
    definition: &'a DefinitionRef,
    correlation: &'a str,
}

impl<'a> CorrelatedExecution<'a> {
    /// An ended execution gets no signals.
    pub(crate) fn from_commit(commit: &'a ExecutionCommit) -> Option<Self> {
        if commit.state.phase.is_ended() {
            return None;
        }
        let correlation = correlation_of(commit)?;
        Some(Self { execution: &commit.execution, definition: &commit.definition, correlation })
    }
}

/// Buffered signals become events of the first execution that they fit, in the order of acceptance.
pub(crate) async fn deliver(
    connection: &mut PgConnection,
    executions: &[CorrelatedExecution<'_>],
    now: Timestamp,
) -> PostgresResult<()> {
    const DELIVER: &str = "
WITH fitting AS MATERIALIZED (
    SELECT DISTINCT ON (s.id) s.id, k.execution_id
    FROM unnest($1::text[], $2::text[], $3::text[], $4::text[])
        WITH ORDINALITY AS k(tenant, execution_id, definition, correlation, ord)
    CROSS JOIN LATERAL (
        SELECT s.id FROM signals s
        WHERE s.tenant = k.tenant AND s.correlation = k.correlation AND s.expires_at > $5
          AND (s.definition IS NULL OR s.definition = k.definition)
        OFFSET 0) s
    ORDER BY s.id, k.ord
), taken AS (
    DELETE FROM signals s USING fitting f WHERE s.id = f.id RETURNING s.*, f.execution_id
), accepted AS (
    INSERT INTO events (tenant, event_id, execution_id, accept_no, name, payload, actor, traceparent, created_at)
    SELECT t.tenant, t.event_id, t.execution_id, nextval('accept_no'), t.name, t.payload, t.actor, t.traceparent, $5
    FROM (SELECT * FROM taken ORDER BY id) t
    RETURNING tenant, execution_id, accept_no, event_id, octet_length(payload) AS bytes, name
)
INSERT INTO mailbox (tenant, execution_id, accept_no, event_id, bytes, cancels, created_at)
SELECT a.tenant, a.execution_id, a.accept_no, a.event_id, a.bytes,
       a.name IN ('millstream.cancel', 'millstream.fail'), $5
FROM accepted a";
    if executions.is_empty() {
        return Ok(());
    }
    let keys: KeyColumns<'_> = executions.iter().map(|one| one.execution).collect();
    keys.bound(DELIVER)
        .bind(executions.iter().map(|one| one.definition.name.as_str()).collect::<Vec<_>>())
        .bind(executions.iter().map(|one| one.correlation).collect::<Vec<_>>())
        .bind(now.as_millis())
        .execute(connection)
        .await?;
    Ok(())
}
