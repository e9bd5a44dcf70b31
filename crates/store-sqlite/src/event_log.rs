//! Accepting: a batch becomes durable in one transaction.
//!
//! The verdicts are made in [`crate::append`]; here the accepted items get their numbers, in the order
//! of the batch, and their rows. Two requests with one idempotency key cannot both be new: the second
//! transaction begins after the first has committed.

use millstream_core::id::{AcceptNo, DefinitionRef, ExecutionKey, TenantId};
use millstream_core::raw::RawJson;
use millstream_core::sweep::Band;
use millstream_core::time::Timestamp;
use millstream_store::Result;
use millstream_store::event_log::{Append, Appended, EventLog, Idempotency, NewExecution};
use serde::Serialize;
use sqlx::SqliteConnection;

use crate::accept::{EventRow, insert_events, take_numbers};
use crate::append::{Known, first_event};
use crate::commit::{insert_timers, insert_transitions};
use crate::connect::SqliteStore;
use crate::decode::Fields;
use crate::errors::store_error;
use crate::param::{self, ExecutionParam};

#[async_trait::async_trait]
impl EventLog for SqliteStore {
    async fn append(&self, batch: &[Append], now: Timestamp) -> Result<Vec<Appended>> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let mut tx = self.write().await?;
        let mut known = Known::read(&mut tx, batch).await?;
        let refusals: Vec<_> = batch.iter().map(|item| known.judge(item)).collect();
        let accepted: Vec<&Append> = batch
            .iter()
            .zip(&refusals)
            .filter(|(_, refusal)| refusal.is_none())
            .map(|(item, _)| item)
            .collect();
        let mut numbers =
            if accepted.is_empty() { Vec::new() } else { insert_accepted(&mut tx, &accepted, now).await? }
                .into_iter();
        tx.commit().await.map_err(store_error)?;
        Ok(refusals
            .into_iter()
            .map(|refusal| {
                refusal.or_else(|| numbers.next().map(|accept_no| Appended::Accepted { accept_no }))
            })
            .map(|verdict| verdict.unwrap_or(Appended::NoExecution))
            .collect())
    }

    async fn seen(&self, keys: &[(TenantId, Idempotency)]) -> Result<Vec<Option<Appended>>> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let mut tx = self.read().await?;
        let known = Known::of_keys(&mut tx, keys).await?;
        tx.commit().await.map_err(store_error)?;
        Ok(keys.iter().map(|(tenant, idempotency)| known.by_key(tenant, idempotency)).collect())
    }

    async fn targets(&self, executions: &[ExecutionKey]) -> Result<Vec<Option<DefinitionRef>>> {
        const TARGETS: &str = "
            SELECT i.key AS place, x.definition, x.version
            FROM json_each(?1) AS i
            CROSS JOIN executions AS x
                ON x.tenant = i.value ->> 'tenant' AND x.execution_id = i.value ->> 'execution'";
        let keys = param::rows(executions.iter().map(ExecutionParam::of))?;
        let rows = sqlx::query(TARGETS).bind(keys).fetch_all(&self.readers).await.map_err(store_error)?;
        let mut targets = vec![None; executions.len()];
        for row in rows.iter().map(Fields) {
            if let Some(target) = targets.get_mut(row.index("place")?) {
                *target = Some(row.definition()?);
            }
        }
        Ok(targets)
    }

    async fn undecided(
        &self,
        bands: Option<&[Band]>,
        after: Option<&ExecutionKey>,
        limit: usize,
    ) -> Result<Vec<ExecutionKey>> {
        // The first condition on the status is the one of the partial index, word for word.
        const UNDECIDED: &str = "
            SELECT DISTINCT e.tenant, e.execution_id
            FROM events AS e INDEXED BY events_mailbox
            CROSS JOIN executions AS x ON x.tenant = e.tenant AND x.execution_id = e.execution_id
            WHERE e.status IN ('pending', 'deferred') AND e.status = 'pending'
              AND (e.tenant, e.execution_id) > (?2, ?3)
              AND (x.paused_reason IS NULL OR e.name = 'millstream.cancel')
              AND (?1 IS NULL OR EXISTS (
                  SELECT 1 FROM json_each(?1) AS b
                  WHERE e.created_at > b.value ->> 'after' AND e.created_at <= b.value ->> 'until'))
            ORDER BY e.tenant, e.execution_id
            LIMIT ?4";
        #[derive(Serialize)]
        struct BandParam {
            after: i64,
            until: i64,
        }
        let bands =
            bands
                .map(|bands| {
                    param::rows(bands.iter().map(|band| BandParam {
                        after: band.after.as_millis(),
                        until: band.until.as_millis(),
                    }))
                })
                .transpose()?;
        let rows = sqlx::query(UNDECIDED)
            .bind(bands)
            .bind(after.map_or("", |key| key.tenant.as_str()))
            .bind(after.map_or("", |key| key.execution.as_str()))
            .bind(param::limit(limit))
            .fetch_all(&self.readers)
            .await
            .map_err(store_error)?;
        rows.iter().map(|row| Fields(row).execution()).collect()
    }

    async fn has_work(&self, executions: &[ExecutionKey]) -> Result<Vec<bool>> {
        const HAS_WORK: &str = "
            SELECT i.key AS place
            FROM json_each(?1) AS i
            CROSS JOIN executions AS x
                ON x.tenant = i.value ->> 'tenant' AND x.execution_id = i.value ->> 'execution'
            WHERE EXISTS (
                SELECT 1 FROM events AS e INDEXED BY events_mailbox
                WHERE e.tenant = x.tenant AND e.execution_id = x.execution_id
                  AND e.status IN ('pending', 'deferred') AND e.status = 'pending'
                  AND (x.paused_reason IS NULL OR e.name = 'millstream.cancel'))";
        let keys = param::rows(executions.iter().map(ExecutionParam::of))?;
        let rows = sqlx::query(HAS_WORK).bind(keys).fetch_all(&self.readers).await.map_err(store_error)?;
        let mut work = vec![false; executions.len()];
        for row in rows.iter().map(Fields) {
            if let Some(work) = work.get_mut(row.index("place")?) {
                *work = true;
            }
        }
        Ok(work)
    }
}

/// Write accepted items and return the number of each one (of its start event, for a start).
async fn insert_accepted(
    connection: &mut SqliteConnection,
    accepted: &[&Append],
    now: Timestamp,
) -> Result<Vec<AcceptNo>> {
    let count = accepted.iter().map(|item| match item {
        Append::Start(new) => 1 + new.events.len(),
        Append::Event(_) => 1,
    });
    let mut numbers = take_numbers(connection, count.sum()).await?.into_iter();
    let (mut verdicts, mut events, mut starts) = (Vec::new(), Vec::new(), Vec::new());
    for item in accepted {
        let Some(number) = numbers.next() else { break };
        verdicts.push(number);
        match item {
            Append::Start(new) => {
                starts.push((new.as_ref(), number));
                events.push(EventRow::started(new, number));
                events.extend(
                    new.events
                        .iter()
                        .zip(numbers.by_ref())
                        .map(|(event, no)| EventRow::pending(event, no, now)),
                );
            }
            Append::Event(event) => events.push(EventRow::pending(event, number, now)),
        }
    }
    insert_keys(connection, accepted, now).await?;
    insert_executions(connection, &starts).await?;
    insert_events(connection, &events).await?;
    let created: Vec<_> = starts.iter().map(|(new, _)| (&new.key, &new.applied.transition)).collect();
    insert_transitions(connection, &created).await?;
    let timers: Vec<_> = created
        .iter()
        .flat_map(|(key, created)| created.decision.timers.iter().map(|timer| (*key, timer)))
        .collect();
    insert_timers(connection, &timers).await?;
    Ok(verdicts)
}

async fn insert_keys(connection: &mut SqliteConnection, accepted: &[&Append], now: Timestamp) -> Result<()> {
    const INSERT_KEYS: &str = "
        INSERT INTO idempotency_keys (tenant, key, request_hash, event_id, created_at)
        SELECT value ->> 'tenant', value ->> 'key', value ->> 'request_hash', value ->> 'event', ?2
        FROM json_each(?1)";
    #[derive(Serialize)]
    struct KeyRow<'a> {
        tenant: &'a str,
        key: &'a str,
        request_hash: String,
        event: millstream_core::id::EventId,
    }
    let keys: Vec<_> = accepted
        .iter()
        .filter_map(|item| {
            let event = first_event(item);
            let idempotency = event.idempotency.as_ref()?;
            Some(KeyRow {
                tenant: event.execution.tenant.as_str(),
                key: &idempotency.key,
                request_hash: param::hex(&idempotency.request_hash),
                event: event.event_id,
            })
        })
        .collect();
    if keys.is_empty() {
        return Ok(());
    }
    sqlx::query(INSERT_KEYS)
        .bind(param::rows(keys)?)
        .bind(now.as_millis())
        .execute(connection)
        .await
        .map_err(store_error)?;
    Ok(())
}

async fn insert_executions(
    connection: &mut SqliteConnection,
    starts: &[(&NewExecution, AcceptNo)],
) -> Result<()> {
    const INSERT_EXECUTIONS: &str = "
        INSERT INTO executions (tenant, execution_id, definition, version, input_hash, position, seq, state,
                                phase, snapshot, snapshot_seq, created_at, updated_at, ended_at)
        SELECT value ->> 'tenant', value ->> 'execution', value ->> 'definition', value ->> 'version',
               value ->> 'input_hash', value ->> 'position', value ->> 'seq', value ->> 'state',
               value ->> 'phase', value ->> 'snapshot', value ->> 'seq', value ->> 'at', value ->> 'at',
               CASE WHEN value ->> 'phase' <> 'active' THEN value ->> 'at' END
        FROM json_each(?1)";
    #[derive(Serialize)]
    struct ExecutionRow<'a> {
        #[serde(flatten)]
        key: ExecutionParam<'a>,
        definition: &'a str,
        version: i32,
        input_hash: String,
        position: AcceptNo,
        seq: i64,
        state: &'a str,
        phase: &'a str,
        snapshot: String,
        at: i64,
    }
    if starts.is_empty() {
        return Ok(());
    }
    let rows = starts.iter().map(|(new, position)| ExecutionRow {
        key: ExecutionParam::of(&new.key),
        definition: new.definition.name.as_str(),
        version: new.definition.version,
        input_hash: param::hex(&new.input_hash),
        position: *position,
        seq: new.state.seq.0,
        state: new.state.state.as_str(),
        phase: new.state.phase.as_str(),
        snapshot: RawJson::of(&new.state).to_string(),
        at: new.state.at.as_millis(),
    });
    sqlx::query(INSERT_EXECUTIONS).bind(param::rows(rows)?).execute(connection).await.map_err(store_error)?;
    Ok(())
}
