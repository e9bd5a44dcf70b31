//! Loading what a step needs, and counting attempts. Committing has its own files: almost every batch is one
//! statement ([`commit_plain`]), any other one takes the careful path ([`crate::commit`]).
//!
//! `load` is one statement, so that head and mailbox of an execution are of one moment. Its rows come in
//! four kinds (head, undecided, deferred, log) under shared columns: a join would repeat the snapshot for
//! every event. [`crate::loading`] makes executions of them.

use std::collections::{BTreeMap, HashMap};

use async_trait::async_trait;
use millstream_model::id::{EventId, ExecutionKey, WorkerId};
use millstream_model::mutation::{self, Mutation};
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::execution_store::{
    CommitVerdict, ExecutionCommit, ExecutionStore, LeaseGrant, LoadRequest, LoadVerdict, MailboxLimits,
};
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{Postgres, Row};
use uuid::Uuid;

use crate::connect::PostgresStore;
use crate::errors::PostgresResult;
use crate::{commit_plain, decode, loading};

#[async_trait]
impl ExecutionStore for PostgresStore {
    async fn load_executions(
        &self,
        wanted: &[LoadRequest],
        limits: MailboxLimits,
    ) -> StoreResult<Vec<LoadVerdict>> {
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        self.without_retries(self.load_all(wanted, limits)).await
    }

    async fn commit_executions(
        &self,
        worker: &WorkerId,
        batch: &[ExecutionCommit],
        lease: &LeaseGrant,
        now: Timestamp,
    ) -> StoreResult<Vec<CommitVerdict>> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        self.with_retries(|| self.commit_once(worker, batch, lease, now)).await
    }

    async fn count_attempts(&self, events: &[(ExecutionKey, EventId)]) -> StoreResult<Vec<i32>> {
        if events.is_empty() {
            return Ok(Vec::new());
        }
        self.with_retries(|| self.count_once(events)).await
    }
}

/// Executions as two arrays.
#[derive(Debug, Default)]
pub(crate) struct KeyColumns<'a> {
    tenants: Vec<&'a str>,
    executions: Vec<&'a str>,
}

impl<'a> FromIterator<&'a ExecutionKey> for KeyColumns<'a> {
    fn from_iter<I: IntoIterator<Item = &'a ExecutionKey>>(keys: I) -> Self {
        let mut columns = Self::default();
        for key in keys {
            columns.tenants.push(key.tenant.as_str());
            columns.executions.push(key.execution.as_str());
        }
        columns
    }
}

impl KeyColumns<'_> {
    /// As `$1` and `$2`.
    pub(crate) fn bound<'q>(&'q self, sql: &'static str) -> Query<'q, Postgres, PgArguments> {
        sqlx::query(sql).bind(&self.tenants).bind(&self.executions)
    }
}

/// Lock executions in the order of their keys. Rows that exist are returned as they are now.
pub(crate) const LOCK_EXECUTIONS: &str = "
SELECT x.*
FROM (SELECT * FROM unnest($1::text[], $2::text[]) AS u(tenant, execution_id)
      ORDER BY u.tenant COLLATE \"C\", u.execution_id COLLATE \"C\") k
CROSS JOIN LATERAL (
    SELECT x.tenant, x.execution_id, x.definition, x.version, x.seq, x.phase, x.paused_reason
    FROM executions x
    WHERE x.tenant = k.tenant AND x.execution_id = k.execution_id
    FOR NO KEY UPDATE) x";

/// `kind`: 0 head, 1 undecided event, 2 deferred event, 3 transition after the snapshot.
/// `size` is the length of a payload; in a head it is the execution's position. Payloads longer than `$5`
/// are left out: most of them may be beyond what one visit takes.
const LOAD: &str = "
WITH wanted AS MATERIALIZED (
    SELECT k.ord, x.*
    FROM unnest($1::text[], $2::text[], $3::bigint[], $6::bigint[])
        WITH ORDINALITY AS k(tenant, execution_id, seq, position, ord)
    CROSS JOIN LATERAL (
        SELECT x.tenant, x.execution_id, x.definition, x.version, x.seq, x.position, x.snapshot_seq,
               x.paused_reason, (k.position, k.seq) IS DISTINCT FROM (x.position, x.seq) AS stale,
               CASE WHEN (k.position, k.seq) IS DISTINCT FROM (x.position, x.seq) THEN x.snapshot END AS snapshot
        FROM executions x
        WHERE x.tenant = k.tenant AND x.execution_id = k.execution_id
        OFFSET 0) x
)
SELECT w.ord, 0 AS kind, w.seq AS number, NULL::uuid AS event_id, w.definition AS name, w.snapshot AS body,
       w.snapshot_seq AS at, NULL::bigint AS timer_seq, w.version AS attempts, w.paused_reason AS traceparent,
       w.position AS size,
       CASE WHEN w.stale THEN (
           SELECT g.blob FROM graphs g WHERE g.tenant = w.tenant AND g.execution_id = w.execution_id) END AS blob
FROM wanted w
UNION ALL
SELECT w.ord, 1, m.accept_no, e.event_id, e.name, CASE WHEN m.bytes <= $5 THEN e.payload END, e.created_at,
       e.timer_seq, e.attempts, e.traceparent, m.bytes, NULL
FROM wanted w
CROSS JOIN LATERAL (
    SELECT m.accept_no, m.event_id, m.bytes
    FROM mailbox m
    WHERE m.tenant = w.tenant AND m.execution_id = w.execution_id AND NOT m.deferred
      AND (w.paused_reason IS NULL OR m.cancels)
    ORDER BY m.accept_no
    LIMIT $4
) m
CROSS JOIN LATERAL (
    SELECT e.* FROM events e WHERE e.tenant = w.tenant AND e.event_id = m.event_id OFFSET 0) e
UNION ALL
SELECT w.ord, 2, m.accept_no, e.event_id, e.name, e.payload, e.created_at, e.timer_seq, e.attempts,
       e.traceparent, m.bytes, NULL
FROM wanted w
CROSS JOIN LATERAL (
    SELECT m.* FROM mailbox m
    WHERE m.tenant || '' = w.tenant AND CASE WHEN m.deferred THEN m.execution_id END = w.execution_id AND m.deferred
    OFFSET 0) m
CROSS JOIN LATERAL (
    SELECT e.* FROM events e WHERE e.tenant = w.tenant AND e.event_id = m.event_id OFFSET 0) e
UNION ALL
SELECT w.ord, 3, t.seq, t.event_id, t.name, t.decision, t.at, NULL, 0, NULL, 0, NULL
FROM wanted w
CROSS JOIN LATERAL (
    SELECT t.* FROM transitions t
    WHERE t.tenant = w.tenant AND t.execution_id = w.execution_id AND t.seq > w.snapshot_seq AND t.seq <= w.seq
    OFFSET 0) t
WHERE w.stale AND w.snapshot_seq < w.seq
ORDER BY 1, 2, 3";

impl PostgresStore {
    async fn commit_once(
        &self,
        worker: &WorkerId,
        batch: &[ExecutionCommit],
        grant: &LeaseGrant,
        now: Timestamp,
    ) -> PostgresResult<Vec<CommitVerdict>> {
        if batch.iter().all(commit_plain::is_plain)
            && !mutation::is_active(Mutation::NoFence)
            && let Some(committed) = commit_plain::commit(&self.warm, worker, batch, grant, now).await?
        {
            return Ok(committed);
        }
        self.commit_carefully(worker, batch, grant, now).await
    }

    async fn load_all(
        &self,
        wanted: &[LoadRequest],
        limits: MailboxLimits,
    ) -> PostgresResult<Vec<LoadVerdict>> {
        let keys: KeyColumns<'_> = wanted.iter().map(|wanted| &wanted.execution).collect();
        let known = || wanted.iter().map(|wanted| wanted.known);
        let seqs: Vec<Option<i64>> = known().map(|known| Some(known?.seq.0)).collect();
        let positions: Vec<Option<i64>> = known().map(|known| Some(known?.position.0)).collect();
        let events = limits.events.max(1);
        let load = keys
            .bound(LOAD)
            .bind(&seqs)
            // One more than the limit shows whether more remain.
            .bind(i64::try_from(events).map_or(i64::MAX, |events| events.saturating_add(1)))
            .bind(i32::try_from(limits.bytes / events).unwrap_or(i32::MAX))
            .bind(&positions);
        let rows = self.warm.fetch_rows(load).await?;
        let mut parts: BTreeMap<i64, Vec<PgRow>> = BTreeMap::new();
        for row in rows {
            parts.entry(row.try_get(0)?).or_default().push(row);
        }
        let mut loaded: Vec<LoadVerdict> = Vec::with_capacity(wanted.len());
        for (wanted, ord) in wanted.iter().zip(1..) {
            loaded.push(match parts.remove(&ord) {
                None => LoadVerdict::Missing,
                Some(rows) => {
                    loading::assemble_execution(&wanted.execution, &rows, limits).unwrap_or_else(|failure| {
                        LoadVerdict::Corrupt { reason: failure.into_store_error().to_string() }
                    })
                }
            });
        }
        loading::fetch_long_payloads(&self.warm, &mut loaded).await?;
        Ok(loaded)
    }

    async fn count_once(&self, events: &[(ExecutionKey, EventId)]) -> PostgresResult<Vec<i32>> {
        const COUNT: &str = "
UPDATE events e SET attempts = e.attempts + 1
FROM unnest($1::text[], $2::text[], $3::uuid[]) AS k(tenant, execution_id, event_id)
WHERE e.tenant = k.tenant AND e.event_id = k.event_id AND e.execution_id = k.execution_id
  AND EXISTS (
    SELECT FROM mailbox m
    WHERE m.tenant = e.tenant AND m.execution_id = e.execution_id AND m.accept_no = e.accept_no)
RETURNING e.tenant, e.event_id, e.attempts";
        let keys: KeyColumns<'_> = events.iter().map(|(execution, _)| execution).collect();
        let ids: Vec<Uuid> = events.iter().map(|(_, event)| event.0).collect();
        let mut held = self.warm.hold_pooled().await?;
        let mut transaction = held.begin().await?;
        keys.bound(LOCK_EXECUTIONS).execute(&mut *transaction).await?;
        let rows = keys.bound(COUNT).bind(&ids).fetch_all(&mut *transaction).await?;
        transaction.commit().await?;
        let counted = rows
            .iter()
            .map(|row| {
                let id = (decode::parsed(row, "tenant")?, decode::event_id(row)?);
                Ok((id, row.try_get("attempts")?))
            })
            .collect::<PostgresResult<HashMap<_, i32>>>()?;
        Ok(events
            .iter()
            .map(|(key, event)| counted.get(&(key.tenant.clone(), *event)).copied().unwrap_or(0))
            .collect())
    }
}
