//! Loading what a step needs, and counting attempts. Committing has its own file.
//!
//! `load` is one statement, so that head and mailbox of an execution are of one moment. Its rows come in
//! three kinds (head, mailbox, log) under shared columns: a join would repeat the snapshot for every
//! event. The mailbox is found by the expression that its index is over. An execution whose rows cannot be read is corrupt alone.

use std::collections::{BTreeMap, HashMap};

use async_trait::async_trait;
use millstream_core::id::{EventId, ExecutionKey, Seq, WorkerId};
use millstream_core::log::{Kept, Waiting};
use millstream_core::status::PauseState;
use millstream_core::time::Timestamp;
use millstream_store::Result;
use millstream_store::execution_store::{
    Commit, Committed, ExecutionStore, LeaseGrant, Loaded, LoadedExecution, MailboxLimits, More, Wanted,
};
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{Postgres, Row};
use uuid::Uuid;

use crate::connect::PostgresStore;
use crate::decode::{self, undecodable};
use crate::errors::{Attempt, Failure};

#[async_trait]
impl ExecutionStore for PostgresStore {
    async fn load(&self, wanted: &[Wanted], limits: MailboxLimits) -> Result<Vec<Loaded>> {
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        self.once(self.load_all(wanted, limits)).await
    }

    async fn commit(
        &self,
        worker: &WorkerId,
        batch: &[Commit],
        lease: LeaseGrant,
        now: Timestamp,
    ) -> Result<Vec<Committed>> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        self.patiently(|| self.commit_once(worker, batch, lease, now)).await
    }

    async fn count_attempts(&self, events: &[(ExecutionKey, EventId)]) -> Result<Vec<i32>> {
        if events.is_empty() {
            return Ok(Vec::new());
        }
        self.patiently(|| self.count_once(events)).await
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
SELECT x.tenant, x.execution_id, x.definition, x.version, x.seq, x.phase, x.paused_reason
FROM unnest($1::text[], $2::text[]) AS k(tenant, execution_id)
JOIN executions x ON x.tenant = k.tenant AND x.execution_id = k.execution_id
ORDER BY x.tenant, x.execution_id
FOR NO KEY UPDATE OF x";

/// `kind`: 0 head, 1 undecided event, 2 deferred event, 3 transition after the snapshot.
/// `remains` counts the undecided events found before the mailbox was cut by bytes; in a head it is the
/// execution's position.
const LOAD: &str = "
WITH wanted AS MATERIALIZED (
    SELECT k.ord, x.*, (k.position, k.seq) IS DISTINCT FROM (x.position, x.seq) AS stale
    FROM unnest($1::text[], $2::text[], $3::bigint[], $6::bigint[])
        WITH ORDINALITY AS k(tenant, execution_id, seq, position, ord)
    JOIN executions x ON x.tenant = k.tenant AND x.execution_id = k.execution_id
)
SELECT w.ord, 0 AS kind, w.seq AS number, NULL::uuid AS event_id, w.definition AS name,
       CASE WHEN w.stale THEN w.snapshot END AS body, w.snapshot_seq AS at, NULL::bigint AS timer_seq,
       w.version AS attempts, w.paused_reason AS traceparent, w.position AS remains
FROM wanted w
UNION ALL
SELECT w.ord, 1, m.accept_no, m.event_id, m.name, m.payload, m.created_at, m.timer_seq, m.attempts,
       m.traceparent, m.remains
FROM wanted w CROSS JOIN LATERAL (
    SELECT c.*, count(*) OVER () AS remains, row_number() OVER mailbox AS place,
           sum(octet_length(c.payload)) OVER mailbox AS bytes
    FROM (
        SELECT e.* FROM events e
        WHERE e.tenant = w.tenant AND CASE WHEN e.status IN ('pending', 'deferred') THEN e.execution_id END = w.execution_id
          AND e.status = 'pending'
          AND (w.paused_reason IS NULL OR e.name = 'millstream.cancel')
        ORDER BY e.accept_no
        LIMIT $4 + 1
    ) c
    WINDOW mailbox AS (ORDER BY c.accept_no ROWS UNBOUNDED PRECEDING)
) m
WHERE m.place = 1 OR (m.place <= $4 AND m.bytes <= $5)
UNION ALL
SELECT w.ord, 2, e.accept_no, e.event_id, e.name, e.payload, e.created_at, e.timer_seq, e.attempts,
       e.traceparent, 0
FROM wanted w
JOIN events e ON e.tenant = w.tenant AND CASE WHEN e.status IN ('pending', 'deferred') THEN e.execution_id END = w.execution_id
             AND e.status = 'deferred'
UNION ALL
SELECT w.ord, 3, t.seq, t.event_id, t.name, t.decision, t.at, NULL, 0, NULL, 0
FROM wanted w
JOIN transitions t ON w.stale AND t.tenant = w.tenant AND t.execution_id = w.execution_id
                  AND t.seq > w.snapshot_seq AND t.seq <= w.seq
ORDER BY 1, 2, 3";

impl PostgresStore {
    async fn load_all(&self, wanted: &[Wanted], limits: MailboxLimits) -> Attempt<Vec<Loaded>> {
        let keys: KeyColumns<'_> = wanted.iter().map(|wanted| &wanted.execution).collect();
        let known = || wanted.iter().map(|wanted| wanted.known);
        let seqs: Vec<Option<i64>> = known().map(|known| Some(known?.seq.0)).collect();
        let positions: Vec<Option<i64>> = known().map(|known| Some(known?.position.0)).collect();
        let rows = keys
            .bound(LOAD)
            .bind(&seqs)
            .bind(i64::try_from(limits.events.max(1)).unwrap_or(i64::MAX - 1))
            .bind(i64::try_from(limits.bytes).unwrap_or(i64::MAX))
            .bind(&positions)
            .fetch_all(&self.pool)
            .await?;
        let mut rows_of: BTreeMap<i64, Vec<PgRow>> = BTreeMap::new();
        for row in rows {
            rows_of.entry(row.try_get("ord")?).or_default().push(row);
        }
        Ok(wanted
            .iter()
            .zip(1..)
            .map(|(wanted, ord)| match rows_of.remove(&ord) {
                None => Loaded::Missing,
                Some(rows) => assemble(&wanted.execution, &rows).unwrap_or_else(|failure| Loaded::Corrupt {
                    reason: failure.into_store_error().to_string(),
                }),
            })
            .collect())
    }

    async fn count_once(&self, events: &[(ExecutionKey, EventId)]) -> Attempt<Vec<i32>> {
        const COUNT: &str = "
UPDATE events e SET attempts = e.attempts + 1
FROM unnest($1::text[], $2::text[], $3::uuid[]) AS k(tenant, execution_id, event_id)
WHERE e.tenant = k.tenant AND e.event_id = k.event_id AND e.execution_id = k.execution_id
  AND e.status NOT IN ('processing', 'completed', 'rejected', 'failed', 'dead')
RETURNING e.tenant, e.event_id, e.attempts";
        let keys: KeyColumns<'_> = events.iter().map(|(execution, _)| execution).collect();
        let ids: Vec<Uuid> = events.iter().map(|(_, event)| event.0).collect();
        let mut transaction = self.pool.begin().await?;
        keys.bound(LOCK_EXECUTIONS).execute(&mut *transaction).await?;
        let rows = keys.bound(COUNT).bind(&ids).fetch_all(&mut *transaction).await?;
        transaction.commit().await?;
        let counted = rows
            .iter()
            .map(|row| {
                let id = (decode::parsed(row, "tenant")?, decode::event_id(row)?);
                Ok((id, row.try_get("attempts")?))
            })
            .collect::<Attempt<HashMap<_, i32>>>()?;
        Ok(events
            .iter()
            .map(|(key, event)| counted.get(&(key.tenant.clone(), *event)).copied().unwrap_or(0))
            .collect())
    }
}

/// One execution from its rows: the head first, then events and log, each in order.
fn assemble(key: &ExecutionKey, rows: &[PgRow]) -> Attempt<Loaded> {
    let (head, rest) =
        rows.split_first().ok_or_else(|| Failure::Undecodable("an execution without a row".to_owned()))?;
    let (mut mailbox, mut log, mut found) = (Vec::new(), Vec::new(), 0);
    let mut taken = 0;
    for row in rest {
        match row.try_get::<i32, _>("kind")? {
            1 => {
                mailbox.push(waiting(row, Kept::Undecided)?);
                taken += 1;
                found = row.try_get::<i64, _>("remains")?;
            }
            2 => mailbox.push(waiting(row, Kept::Deferred)?),
            3 => log.push(decode::transition(
                decode::seq(row, "number")?,
                decode::event_id(row)?,
                decode::parsed(row, "name")?,
                decode::time(row, "at")?,
                row.try_get("body")?,
            )?),
            other => return Err(undecodable("kind", &other.to_string(), "not one of ours")),
        }
    }
    mailbox.sort_by_key(|waiting| waiting.accept_no);
    let seq = decode::seq(head, "number")?;
    let snapshot_seq = decode::seq(head, "at")?;
    let state = match head.try_get::<Option<&str>, _>("body")? {
        None => None,
        Some(text) => {
            let snapshot = decode::snapshot(text)?;
            without_gaps(snapshot.seq, log.iter().map(|transition| transition.seq), seq)?;
            Some((snapshot, log))
        }
    };
    Ok(Loaded::Found(Box::new(LoadedExecution {
        execution: key.clone(),
        position: millstream_core::id::AcceptNo(head.try_get("remains")?),
        definition: millstream_core::id::DefinitionRef {
            name: decode::parsed(head, "name")?,
            version: head.try_get("attempts")?,
        },
        seq,
        pause: match head.try_get::<Option<&str>, _>("traceparent")? {
            Some(_) => PauseState::Paused,
            None => PauseState::Running,
        },
        state,
        snapshot_seq,
        mailbox,
        more: if taken < found { More::Remains } else { More::Nothing },
    })))
}

fn waiting(row: &PgRow, kept: Kept) -> Attempt<Waiting> {
    Ok(Waiting {
        event_id: decode::event_id(row)?,
        accept_no: millstream_core::id::AcceptNo(row.try_get("number")?),
        name: decode::parsed(row, "name")?,
        payload: decode::json(row, "body")?,
        accepted_at: decode::time(row, "at")?,
        origin: decode::origin(row)?,
        kept,
        attempts: row.try_get("attempts")?,
        traceparent: row.try_get("traceparent")?,
    })
}

/// Snapshot and log must lead to the seq of the row, step by step.
pub(crate) fn without_gaps(snapshot: Seq, log: impl Iterator<Item = Seq>, end: Seq) -> Attempt<()> {
    let mut last = snapshot;
    for seq in log {
        if seq != last.next() {
            return Err(Failure::Undecodable(format!("the log goes from seq {last} to {seq}")));
        }
        last = seq;
    }
    if last != end {
        return Err(Failure::Undecodable(format!("the log ends at seq {last}, the execution is at {end}")));
    }
    Ok(())
}
