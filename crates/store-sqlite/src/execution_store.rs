//! Deciding: what a worker loads, and where its commits go.
//!
//! A load is one read transaction for the whole batch: state, log and mailbox of an execution are of
//! one moment. What cannot be decoded spoils its own execution only.

use std::collections::HashMap;

use millstream_core::id::{AcceptNo, EventId, ExecutionKey, Seq, WorkerId};
use millstream_core::log::{State, Transition};
use millstream_core::time::Timestamp;
use millstream_store::Result;
use millstream_store::execution_store::{
    Commit, Committed, ExecutionStore, Known, LeaseGrant, Loaded, LoadedExecution, MailboxLimits, Wanted,
};
use serde::Serialize;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use crate::commit::commit_batch;
use crate::connect::SqliteStore;
use crate::decode::Fields;
use crate::errors::{corrupt, store_error};
use crate::mailbox::{Mailbox, read_mailboxes};
use crate::param::{self, EventParam, ExecutionParam};

#[async_trait::async_trait]
impl ExecutionStore for SqliteStore {
    async fn load(&self, wanted: &[Wanted], limits: MailboxLimits) -> Result<Vec<Loaded>> {
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let mut tx = self.read().await?;
        let executions = read_executions(&mut tx, wanted).await?;
        let mut log = read_log(&mut tx, wanted).await?;
        let mut mailboxes =
            read_mailboxes(&mut tx, wanted.iter().map(|wanted| &wanted.execution), limits).await?;
        tx.commit().await.map_err(store_error)?;

        let mut loaded: Vec<_> = wanted.iter().map(|_| Loaded::Missing).collect();
        for row in &executions {
            let place = Fields(row).index("place")?;
            let (Some(slot), Some(wanted)) = (loaded.get_mut(place), wanted.get(place)) else { continue };
            let log = log.remove(&place).unwrap_or_default();
            let mailbox = mailboxes.remove(&place).unwrap_or_default();
            *slot = match assemble(row, wanted, &log, mailbox) {
                Ok(found) => Loaded::Found(Box::new(found)),
                Err(error) => Loaded::Corrupt { reason: error.to_string() },
            };
        }
        Ok(loaded)
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
        let mut tx = self.write().await?;
        let committed = commit_batch(&mut tx, worker, batch, lease, now).await?;
        tx.commit().await.map_err(store_error)?;
        Ok(committed)
    }

    async fn count_attempts(&self, events: &[(ExecutionKey, EventId)]) -> Result<Vec<i32>> {
        const COUNT_ATTEMPTS: &str = "
            UPDATE events SET attempts = attempts + 1
            WHERE status IN ('pending', 'deferred') AND (tenant, event_id) IN (
                SELECT value ->> 'tenant', value ->> 'event' FROM json_each(?1))
            RETURNING tenant, event_id, attempts";
        if events.is_empty() {
            return Ok(Vec::new());
        }
        let keys = param::rows(events.iter().map(|(key, event)| EventParam::of(&key.tenant, *event)))?;
        let mut tx = self.write().await?;
        let rows = sqlx::query(COUNT_ATTEMPTS).bind(keys).fetch_all(&mut *tx).await.map_err(store_error)?;
        tx.commit().await.map_err(store_error)?;
        let mut counts = HashMap::new();
        for row in rows.iter().map(Fields) {
            counts.insert((row.id("tenant")?, row.event_id("event_id")?), row.small("attempts")?);
        }
        Ok(events
            .iter()
            .map(|(key, event)| counts.get(&(key.tenant.clone(), *event)).copied().unwrap_or(0))
            .collect())
    }
}

#[derive(Serialize)]
struct WantedParam<'a> {
    #[serde(flatten)]
    key: ExecutionParam<'a>,
    known_position: Option<AcceptNo>,
    known_seq: Option<Seq>,
}

fn wanted_param(wanted: &[Wanted]) -> Result<String> {
    param::rows(wanted.iter().map(|wanted| WantedParam {
        key: ExecutionParam::of(&wanted.execution),
        known_position: wanted.known.map(|known| known.position),
        known_seq: wanted.known.map(|known| known.seq),
    }))
}

async fn read_executions(connection: &mut SqliteConnection, wanted: &[Wanted]) -> Result<Vec<SqliteRow>> {
    const READ_EXECUTIONS: &str = "
        SELECT i.key AS place, x.position, x.definition, x.version, x.seq, x.paused_reason, x.snapshot_seq,
               CASE WHEN i.value ->> 'known_position' IS x.position AND i.value ->> 'known_seq' IS x.seq
                    THEN NULL ELSE x.snapshot END AS snapshot
        FROM json_each(?1) AS i
        CROSS JOIN executions AS x
            ON x.tenant = i.value ->> 'tenant' AND x.execution_id = i.value ->> 'execution'";
    sqlx::query(READ_EXECUTIONS).bind(wanted_param(wanted)?).fetch_all(connection).await.map_err(store_error)
}

/// The transitions after the snapshot, by the place of their execution in `wanted`.
async fn read_log(
    connection: &mut SqliteConnection,
    wanted: &[Wanted],
) -> Result<HashMap<usize, Vec<SqliteRow>>> {
    const READ_LOG: &str = "
        SELECT i.key AS place, t.seq, t.event_id, t.name, t.at, t.decision
        FROM json_each(?1) AS i
        CROSS JOIN executions AS x
            ON x.tenant = i.value ->> 'tenant' AND x.execution_id = i.value ->> 'execution'
           AND x.seq > x.snapshot_seq
           AND (i.value ->> 'known_position' IS NOT x.position OR i.value ->> 'known_seq' IS NOT x.seq)
        CROSS JOIN transitions AS t
            ON t.tenant = x.tenant AND t.execution_id = x.execution_id AND t.seq > x.snapshot_seq
        ORDER BY i.key, t.seq";
    let rows =
        sqlx::query(READ_LOG).bind(wanted_param(wanted)?).fetch_all(connection).await.map_err(store_error)?;
    let mut log: HashMap<usize, Vec<SqliteRow>> = HashMap::new();
    for row in rows {
        log.entry(Fields(&row).index("place")?).or_default().push(row);
    }
    Ok(log)
}

fn assemble(
    row: &SqliteRow,
    wanted: &Wanted,
    log: &[SqliteRow],
    mailbox: Mailbox,
) -> Result<LoadedExecution> {
    let fields = Fields(row);
    let (position, seq) = (fields.accept_no("position")?, fields.seq("seq")?);
    let state = if wanted.known == Some(Known { position, seq }) {
        None
    } else {
        let snapshot = fields.snapshot()?;
        let log = log.iter().map(|row| Fields(row).transition()).collect::<Result<Vec<_>>>()?;
        check_log(&snapshot, &log, seq)?;
        Some((snapshot, log))
    };
    Ok(LoadedExecution {
        execution: wanted.execution.clone(),
        position,
        definition: fields.definition()?,
        seq,
        pause: fields.pause()?,
        state,
        snapshot_seq: fields.seq("snapshot_seq")?,
        mailbox: mailbox.decode()?,
        more: mailbox.more,
    })
}

/// A log with a hole folds into a state that never was.
pub(crate) fn check_log(snapshot: &State, log: &[Transition], seq: Seq) -> Result<()> {
    let mut at = snapshot.seq;
    for transition in log {
        if transition.seq != at.next() {
            return Err(corrupt(format!("the log goes from seq {at} to {}", transition.seq)));
        }
        at = transition.seq;
    }
    if at != seq {
        return Err(corrupt(format!("the log ends at seq {at}, the execution is at {seq}")));
    }
    Ok(())
}
