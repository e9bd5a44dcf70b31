//! Accepting: the moment an event becomes durable.
//!
//! Fast path: almost every batch is events of active executions, which is one statement, or four round trips
//! when there are idempotency keys. Any other batch (starts, signals, repeats, unknown or ended executions)
//! is rolled back and takes the careful path: read the facts, plan ([`crate::accept_plan`]), write, and plan
//! again when a key, an execution or an event id appeared meanwhile.
//!
//! Correlations are locked before anything is read ([`crate::signals`]). Then keys are inserted, in order. Of
//! two concurrent batches with the same key the second waits for the first; it then finds a repeat, or its
//! own key if the first was rolled back.

use std::collections::{BTreeMap, HashMap};

use async_trait::async_trait;
use millstream_model::id::{DefinitionRef, EventId, ExecutionKey, TenantId};
use millstream_model::overdue_sweep::SweepBand;
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::acceptance::{KnownStart, UsedKey};
use millstream_store::event_log::{
    AppendRequest, Appended, EventLog, EventSubmission, IdempotencyKey, SignalSubmission,
};
use sqlx::{PgConnection, Postgres, Row, Transaction};
use uuid::Uuid;

use crate::accept_plan::{AcceptFacts, AcceptPlan, KnownExecution};
use crate::connect::PostgresStore;
use crate::decode;
use crate::errors::{PostgresFailure, PostgresResult};
use crate::event_rows::{self, EventColumns, NumberedEvent};
use crate::execution_store::KeyColumns;
use crate::{commit_rows, doorbells, graph_rows, signals};

#[async_trait]
impl EventLog for PostgresStore {
    async fn append(&self, batch: &[AppendRequest], now: Timestamp) -> StoreResult<Vec<Appended>> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        self.with_retries(|| self.append_once(batch, now)).await
    }

    async fn find_accepted(&self, keys: &[(TenantId, IdempotencyKey)]) -> StoreResult<Vec<Option<Appended>>> {
        self.without_retries(async {
            let mut connection = self.pool.acquire().await?;
            let asked = keys.iter().map(|(tenant, key)| (tenant, key));
            let facts =
                AcceptFacts { keys: read_keys(&mut connection, asked).await?, ..AcceptFacts::default() };
            Ok(keys.iter().map(|(tenant, key)| facts.by_key(tenant, key)).collect())
        })
        .await
    }

    async fn find_definitions(&self, executions: &[ExecutionKey]) -> StoreResult<Vec<Option<DefinitionRef>>> {
        self.without_retries(doorbells::read_targets(&self.warm, executions)).await
    }

    async fn page_undecided(
        &self,
        bands: Option<&[SweepBand]>,
        after: Option<&ExecutionKey>,
        limit: usize,
    ) -> StoreResult<Vec<ExecutionKey>> {
        self.without_retries(doorbells::list_undecided(&self.pool, bands, after, limit)).await
    }

    async fn has_work(&self, executions: &[ExecutionKey]) -> StoreResult<Vec<bool>> {
        self.without_retries(doorbells::find_work(&self.warm, executions)).await
    }
}

/// How often a batch is planned before the call fails.
const PLANS: usize = 8;

impl PostgresStore {
    async fn append_once(&self, batch: &[AppendRequest], now: Timestamp) -> PostgresResult<Vec<Appended>> {
        if let Some(events) = only_events(batch)
            && let Some(appended) = self.append_events(&events, now).await?
        {
            return Ok(appended);
        }
        for _ in 0..PLANS {
            let mut held = self.warm.hold_pooled().await?;
            let mut transaction = held.begin().await?;
            let correlations = taken_by(batch).chain(given_by(batch));
            signals::lock_correlations(&mut transaction, correlations).await?;
            let facts = read_facts(&mut transaction, batch, now).await?;
            if let Some(appended) = write_plan(transaction, facts.plan_batch(batch), now).await? {
                return Ok(appended);
            }
        }
        Err(PostgresFailure::Unsettled("keys or executions of the batch kept changing"))
    }

    /// `None`, and nothing written, when an item is not simply new.
    async fn append_events(
        &self,
        events: &[&EventSubmission],
        now: Timestamp,
    ) -> PostgresResult<Option<Vec<Appended>>> {
        let columns: EventColumns<'_> = events.iter().copied().collect();
        let keys: Vec<_> = events
            .iter()
            .filter_map(|event| Some((&event.execution.tenant, event.idempotency.as_ref()?, event.event_id)))
            .collect();
        let accepted = if keys.is_empty() {
            event_rows::accept(&self.warm, &columns, now).await
        } else {
            let mut held = self.warm.hold_pooled().await?;
            let mut transaction = held.begin().await?;
            if insert_keys(&mut transaction, &keys, now).await? < keys.len() {
                transaction.rollback().await?;
                return Ok(None);
            }
            let accepted = event_rows::accept_within(&mut transaction, &columns, now).await;
            match &accepted {
                Ok(numbers) if numbers.len() == events.len() => transaction.commit().await?,
                Ok(_) | Err(_) => transaction.rollback().await?,
            }
            accepted
        };
        match accepted {
            Ok(numbers) if numbers.len() == events.len() => {
                Ok(Some(numbers.into_iter().map(|accept_no| Appended::Accepted { accept_no }).collect()))
            }
            Ok(_) => Ok(None),
            // An existing id: the outcome of an earlier call with it was in doubt.
            Err(failure) if failure.is_duplicate() => Ok(None),
            Err(failure) => Err(failure),
        }
    }
}

/// On the transaction's own connection: a caller that holds one connection and waits for a second can
/// deadlock the pool.
async fn read_facts(
    connection: &mut PgConnection,
    batch: &[AppendRequest],
    now: Timestamp,
) -> PostgresResult<AcceptFacts> {
    let ids: Vec<_> =
        batch.iter().flat_map(ids_of).map(|(tenant, event, _)| (tenant.clone(), event)).collect();
    let keys = batch.iter().flat_map(ids_of).filter_map(|(tenant, _, key)| Some((tenant, key?)));
    let signals: Vec<_> =
        batch.iter().filter_map(signal_of).map(|signal| (signal.tenant.clone(), signal.event_id)).collect();
    Ok(AcceptFacts {
        keys: read_keys(connection, keys).await?,
        executions: read_executions(connection, batch).await?,
        events: event_rows::read_statuses(&mut *connection, &ids).await?,
        takers: signals::read_takers(connection, taken_by(batch)).await?,
        buffered: signals::known_signals(connection, &signals).await?,
        waiting: signals::read_waiting(connection, given_by(batch), now).await?,
    })
}

/// `None`, and nothing written, when the facts have changed.
async fn write_plan(
    mut transaction: Transaction<'_, Postgres>,
    plan: AcceptPlan<'_>,
    now: Timestamp,
) -> PostgresResult<Option<Vec<Appended>>> {
    if plan.is_empty() {
        transaction.rollback().await?;
        return Ok(Some(plan.verdicts.into_iter().map(|verdict| verdict.with_numbers(&[])).collect()));
    }
    let numbers = event_rows::take_numbers(&mut transaction, plan.events.len()).await?;
    let numbered: Vec<_> = plan
        .events
        .iter()
        .zip(&numbers)
        .map(|(planned, number)| NumberedEvent {
            event: &planned.event,
            accept_no: *number,
            started_at: planned.started_at,
        })
        .collect();
    let starts: Vec<_> = plan.starts.iter().map(|(start, place)| (*start, numbers[place.0])).collect();
    let fits = insert_keys(&mut transaction, &plan.keys, now).await? == plan.keys.len()
        && commit_rows::insert_executions(&mut transaction, &starts).await? == starts.len()
        && keep_ended(&mut transaction, &plan.ended).await? == plan.ended.len()
        && event_rows::insert_numbered(&mut transaction, &numbered, now).await? == numbered.len()
        && signals::remove(&mut transaction, &plan.delivered).await? == plan.delivered.len()
        && signals::insert(&mut transaction, &plan.buffered, now).await? == plan.buffered.len();
    if !fits {
        transaction.rollback().await?;
        return Ok(None);
    }
    let transitions: Vec<_> =
        starts.iter().map(|(start, _)| (&start.key, &start.applied.transition)).collect();
    commit_rows::insert_transitions(&mut transaction, &transitions, None).await?;
    let timers: Vec<_> = transitions
        .iter()
        .flat_map(|(key, transition)| transition.decision.timers.iter().map(|timer| (*key, timer)))
        .collect();
    commit_rows::insert_timers(&mut transaction, &timers).await?;
    let graphs: Vec<_> =
        starts.iter().filter_map(|(start, _)| Some((&start.key, start.graph.as_deref()?))).collect();
    graph_rows::start(&mut transaction, &graphs, now).await?;
    transaction.commit().await?;
    Ok(Some(plan.verdicts.into_iter().map(|verdict| verdict.with_numbers(&numbers)).collect()))
}

fn only_events(batch: &[AppendRequest]) -> Option<Vec<&EventSubmission>> {
    batch
        .iter()
        .map(|item| match item {
            AppendRequest::Event(event) => Some(event),
            AppendRequest::Start(_) | AppendRequest::Signal(_) => None,
        })
        .collect()
}

fn signal_of(item: &AppendRequest) -> Option<&SignalSubmission> {
    match item {
        AppendRequest::Signal(signal) => Some(signal),
        AppendRequest::Event(_) | AppendRequest::Start(_) => None,
    }
}

/// Correlations of the batch's signals.
fn taken_by(batch: &[AppendRequest]) -> impl Iterator<Item = (&TenantId, &str)> {
    batch.iter().filter_map(signal_of).map(|signal| (&signal.tenant, signal.correlation.as_str()))
}

/// Correlations of the batch's starts.
fn given_by(batch: &[AppendRequest]) -> impl Iterator<Item = (&TenantId, &str)> {
    batch.iter().filter_map(|item| match item {
        AppendRequest::Start(start) => Some((&start.key.tenant, start.state.correlation.as_deref()?)),
        AppendRequest::Event(_) | AppendRequest::Signal(_) => None,
    })
}

/// Every event of an item, with its key if it has one.
fn ids_of(item: &AppendRequest) -> Vec<(&TenantId, EventId, Option<&IdempotencyKey>)> {
    match item {
        AppendRequest::Event(event) => vec![id_of(event)],
        AppendRequest::Start(start) => {
            std::iter::once(&start.start).chain(&start.events).map(id_of).collect()
        }
        AppendRequest::Signal(signal) => vec![(&signal.tenant, signal.event_id, signal.idempotency.as_ref())],
    }
}

fn id_of(event: &EventSubmission) -> (&TenantId, EventId, Option<&IdempotencyKey>) {
    (&event.execution.tenant, event.event_id, event.idempotency.as_ref())
}

/// Returns how many were new. A key that occurs twice counts once.
async fn insert_keys(
    connection: &mut PgConnection,
    keys: &[(&TenantId, &IdempotencyKey, EventId)],
    now: Timestamp,
) -> PostgresResult<usize> {
    const INSERT: &str = "
INSERT INTO idempotency_keys (tenant, key, request_hash, event_id, created_at)
SELECT k.tenant, k.key, k.request_hash, k.event_id, $5
FROM unnest($1::text[], $2::text[], $3::bytea[], $4::uuid[]) AS k(tenant, key, request_hash, event_id)
ORDER BY k.tenant COLLATE \"C\", k.key COLLATE \"C\"
ON CONFLICT (tenant, key) DO NOTHING";
    if keys.is_empty() {
        return Ok(0);
    }
    let tenants: Vec<&str> = keys.iter().map(|(tenant, ..)| tenant.as_str()).collect();
    let texts: Vec<&str> = keys.iter().map(|(_, idempotency, _)| idempotency.key.as_str()).collect();
    let hashes: Vec<&[u8]> = keys.iter().map(|(_, idempotency, _)| &idempotency.request_hash[..]).collect();
    let events: Vec<Uuid> = keys.iter().map(|(.., event)| event.0).collect();
    let done = sqlx::query(INSERT)
        .bind(&tenants)
        .bind(&texts)
        .bind(&hashes)
        .bind(&events)
        .bind(now.as_millis())
        .execute(connection)
        .await?;
    Ok(usize::try_from(done.rows_affected()).unwrap_or(usize::MAX))
}

/// A key outlives its event; an event that retention removed was final, so it is reported as completed. The
/// event of a buffered signal is yet to come.
async fn read_keys(
    connection: &mut PgConnection,
    keys: impl IntoIterator<Item = (&TenantId, &IdempotencyKey)>,
) -> PostgresResult<HashMap<(TenantId, String), UsedKey>> {
    const READ: &str = "
SELECT i.tenant, i.key, i.request_hash, i.event_id,
       CASE WHEN e.status IS NOT NULL THEN e.status
            WHEN EXISTS (SELECT FROM signals s WHERE s.tenant = i.tenant AND s.event_id = i.event_id) THEN 'pending'
            ELSE 'completed' END AS status
FROM unnest($1::text[], $2::text[]) AS k(tenant, key)
CROSS JOIN LATERAL (SELECT i.* FROM idempotency_keys i WHERE i.tenant = k.tenant AND i.key = k.key OFFSET 0) i
LEFT JOIN LATERAL (
    SELECT e.status FROM event_records e WHERE e.tenant = i.tenant AND e.event_id = i.event_id OFFSET 0) e ON TRUE";
    let (tenants, keys): (Vec<&str>, Vec<&str>) =
        keys.into_iter().map(|(tenant, idempotency)| (tenant.as_str(), idempotency.key.as_str())).unzip();
    if tenants.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = sqlx::query(READ).bind(&tenants).bind(&keys).fetch_all(connection).await?;
    rows.iter()
        .map(|row| {
            let known = UsedKey {
                request_hash: row.try_get("request_hash")?,
                event_id: decode::event_id(row)?,
                status: decode::parsed(row, "status")?,
            };
            Ok(((decode::parsed(row, "tenant")?, row.try_get("key")?), known))
        })
        .collect()
}

async fn read_executions(
    connection: &mut PgConnection,
    batch: &[AppendRequest],
) -> PostgresResult<HashMap<ExecutionKey, KnownExecution>> {
    const READ: &str = "
SELECT x.tenant, x.execution_id, x.phase, x.input_hash, t.event_id
FROM unnest($1::text[], $2::text[], $3::boolean[]) AS k(tenant, execution_id, starts)
CROSS JOIN LATERAL (
    SELECT x.* FROM executions x WHERE x.tenant = k.tenant AND x.execution_id = k.execution_id OFFSET 0) x
LEFT JOIN LATERAL (
    SELECT t.event_id FROM transitions t
    WHERE k.starts AND t.tenant = x.tenant AND t.execution_id = x.execution_id AND t.seq = 1
    OFFSET 0) t ON TRUE";
    let mut wanted: BTreeMap<&ExecutionKey, bool> = BTreeMap::new();
    for item in batch {
        match item {
            AppendRequest::Event(event) => {
                wanted.entry(&event.execution).or_insert(false);
            }
            AppendRequest::Start(start) => {
                wanted.insert(&start.key, true);
            }
            AppendRequest::Signal(_) => {}
        }
    }
    if wanted.is_empty() {
        return Ok(HashMap::new());
    }
    let columns: KeyColumns<'_> = wanted.keys().copied().collect();
    let starts: Vec<bool> = wanted.values().copied().collect();
    let rows = columns.bound(READ).bind(&starts).fetch_all(connection).await?;
    rows.iter()
        .map(|row| {
            let known = KnownExecution {
                phase: decode::parsed(row, "phase")?,
                start: KnownStart {
                    input_hash: row.try_get("input_hash")?,
                    event_id: row.try_get::<Option<Uuid>, _>("event_id")?.map(EventId),
                },
            };
            Ok((decode::execution_key(row)?, known))
        })
        .collect()
}

/// Locks ended executions against retention while an event for them is being accepted. Returns how many still
/// exist. (Retention does not remove active ones, and their rows have enough contention.)
async fn keep_ended(connection: &mut PgConnection, executions: &[&ExecutionKey]) -> PostgresResult<usize> {
    const KEEP: &str = "
SELECT x.tenant
FROM (SELECT * FROM unnest($1::text[], $2::text[]) AS u(tenant, execution_id)
      ORDER BY u.tenant COLLATE \"C\", u.execution_id COLLATE \"C\") k
CROSS JOIN LATERAL (
    SELECT x.tenant FROM executions x WHERE x.tenant = k.tenant AND x.execution_id = k.execution_id
    FOR KEY SHARE) x";
    if executions.is_empty() {
        return Ok(0);
    }
    let columns: KeyColumns<'_> = executions.iter().copied().collect();
    Ok(columns.bound(KEEP).fetch_all(connection).await?.len())
}
