//! The careful path of settling: outcomes with consequences for other rows, and those whose lease is lost.
//!
//! Locks: the executions that may have to be paused, then the events, then the actions, each in the order of
//! their keys. The lock on the event makes two actions that settle concurrently see each other; without it
//! each would find the other unsettled and the event would stay `processing`. Of independent actions only
//! those are locked that settle: their transition may have thousands.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use millstream_model::id::{ActionKey, DefinitionRef, EventId, ExecutionKey, TenantId, WorkerId};
use millstream_model::status::{ActionStatus, EventStatus, ExecutionPhase};
use millstream_model::time::Timestamp;
use millstream_store::action_store::{
    AfterFailure, LeasedAction, OutcomeDemand, SettleOutcome, SettledBatch, Settlement,
};
use millstream_store::execution_store::LeaseGrant;
use millstream_store::incidents::opens_incident;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use crate::action_groups::{self, apply_lock_clause};
use crate::action_rows::{self, unwanted};
use crate::connection_cache::WarmConnections;
use crate::decode;
use crate::errors::PostgresResult;
use crate::event_rows::{self, EventColumns};
use crate::execution_store::{KeyColumns, LOCK_EXECUTIONS};
use crate::incident_rows::{self, OpenedIncident};
use crate::settle_plan::{self, EventStatuses, SettlePlan};

/// The careful path, in a transaction of its own.
pub(crate) async fn settle_carefully(
    warm: &WarmConnections,
    worker: &WorkerId,
    batch: &[Settlement],
    grant: &LeaseGrant,
    now: Timestamp,
) -> PostgresResult<SettledBatch> {
    let mut held = warm.hold_pooled().await?;
    let mut transaction = held.begin().await?;
    let settled = settle_within(&mut transaction, worker, batch, grant, now).await?;
    transaction.commit().await?;
    Ok(settled)
}

/// The same inside an open transaction, which may already hold rows of tables that come before executions in
/// the order of locks. Nothing is written for stale settlements.
pub(crate) async fn settle_within(
    connection: &mut PgConnection,
    worker: &WorkerId,
    batch: &[Settlement],
    grant: &LeaseGrant,
    now: Timestamp,
) -> PostgresResult<SettledBatch> {
    let phases = lock_executions_to_pause(connection, batch).await?;
    let events = lock_events(connection, batch).await?;
    let keys = || batch.iter().map(|item| &item.lease.key);
    let alone = action_groups::read_alone(connection, keys()).await?;
    let concerned = keys().filter(|key| !alone.contains(key)).map(|key| (&key.execution, key.seq)).collect();
    let mut locked = action_groups::lock_with(connection, &concerned, &alone).await?;
    let unwanted = read_unwanted(connection, batch).await?;
    for (execution, group) in locked.each_mut() {
        if unwanted.contains(execution) {
            group.graph.wanted = OutcomeDemand::Cancelled;
        }
    }
    let statuses: EventStatuses = events.iter().map(|(id, event)| (id.clone(), event.status)).collect();
    let plan = settle_plan::plan_settlements(batch, locked, &statuses, grant, now);
    let verdicts = plan.verdicts(&statuses);
    if plan.is_empty() {
        return Ok(SettledBatch { verdicts, leased: Vec::new(), unleased: 0 });
    }
    let changed = action_groups::write_updates(connection, &plan.actions, Some((worker, grant)), now).await?;
    fail_events(connection, &plan, now).await?;
    pause_executions(connection, &plan, now).await?;
    open_incidents(connection, &plan, &events, &phases, now).await?;
    if !plan.emitted.is_empty() {
        let emitted: EventColumns<'_> = plan.emitted.iter().copied().collect();
        event_rows::emit(connection, &emitted, now).await?;
    }
    let leased = hand_out(connection, &plan, &changed, &events).await?;
    let unleased = plan.freed.len() - leased.len();
    Ok(SettledBatch { verdicts, leased, unleased })
}

/// The events of the settled actions.
type LockedEvents = BTreeMap<(TenantId, EventId), LockedEvent>;

struct LockedEvent {
    status: EventStatus,
    traceparent: Option<String>,
    definition: DefinitionRef,
}

/// Returns their phases: an incident does not pause an ended execution.
async fn lock_executions_to_pause(
    connection: &mut PgConnection,
    batch: &[Settlement],
) -> PostgresResult<HashMap<ExecutionKey, ExecutionPhase>> {
    let pauses = batch.iter().filter(|settlement| match &settlement.outcome {
        SettleOutcome::Failed { then: AfterFailure::Incident(_), .. } => true,
        SettleOutcome::Failed { then: AfterFailure::Emit(_) | AfterFailure::Compensate, .. }
        | SettleOutcome::Succeeded { .. }
        | SettleOutcome::Retry { .. }
        | SettleOutcome::Postponed { .. }
        | SettleOutcome::Awaiting { .. } => false,
    });
    let executions: BTreeSet<&ExecutionKey> =
        pauses.map(|settlement| &settlement.lease.key.execution).collect();
    if executions.is_empty() {
        return Ok(HashMap::new());
    }
    let keys: KeyColumns<'_> = executions.into_iter().collect();
    let rows = keys.bound(LOCK_EXECUTIONS).fetch_all(connection).await?;
    rows.iter().map(|row| Ok((decode::execution_key(row)?, decode::parsed(row, "phase")?))).collect()
}

async fn lock_events(connection: &mut PgConnection, batch: &[Settlement]) -> PostgresResult<LockedEvents> {
    const LOCK: &str = "
SELECT e.tenant, e.event_id, e.verdict, e.traceparent, x.definition, x.version
FROM unnest($1::text[], $2::uuid[]) AS k(tenant, event_id)
JOIN events e ON e.tenant = k.tenant AND e.event_id = k.event_id
JOIN executions x ON x.tenant = e.tenant AND x.execution_id = e.execution_id
ORDER BY e.tenant, e.event_id
FOR NO KEY UPDATE OF e";
    let ids: BTreeSet<(&str, Uuid)> = batch
        .iter()
        .map(|settlement| (settlement.lease.key.execution.tenant.as_str(), settlement.event_id.0))
        .collect();
    let (tenants, events): (Vec<&str>, Vec<Uuid>) = ids.into_iter().unzip();
    let rows = sqlx::query(apply_lock_clause(LOCK, "\nFOR NO KEY UPDATE OF e"))
        .bind(&tenants)
        .bind(&events)
        .fetch_all(connection)
        .await?;
    rows.iter()
        .map(|row| {
            let event = LockedEvent {
                // While one of its actions is leased it is processing, unless it failed.
                status: decode::parsed_option(row, "verdict")?.unwrap_or(EventStatus::Processing),
                traceparent: row.try_get("traceparent")?,
                definition: decode::definition_ref(row)?,
            };
            Ok(((decode::parsed(row, "tenant")?, decode::event_id(row)?), event))
        })
        .collect()
}

/// Which executions of unfinished actions were ended by request. Read after the events are locked, in a
/// statement of its own: a cancellation locks them too, so it is either visible here, or it will see these
/// actions ready and cancel them itself.
async fn read_unwanted(
    connection: &mut PgConnection,
    batch: &[Settlement],
) -> PostgresResult<BTreeSet<ExecutionKey>> {
    const READ: &str = concat!(
        "
SELECT x.tenant, x.execution_id
FROM unnest($1::text[], $2::text[]) AS k(tenant, execution_id)
JOIN executions x ON x.tenant = k.tenant AND x.execution_id = k.execution_id
WHERE ",
        unwanted!("x")
    );
    let retried = batch.iter().filter(|settlement| match &settlement.outcome {
        SettleOutcome::Retry { .. }
        | SettleOutcome::Postponed { .. }
        | SettleOutcome::Awaiting { .. }
        | SettleOutcome::Failed { then: AfterFailure::Compensate, .. } => true,
        SettleOutcome::Succeeded { .. }
        | SettleOutcome::Failed { then: AfterFailure::Emit(_) | AfterFailure::Incident(_), .. } => false,
    });
    let executions: BTreeSet<&ExecutionKey> =
        retried.map(|settlement| &settlement.lease.key.execution).collect();
    if executions.is_empty() {
        return Ok(BTreeSet::new());
    }
    let keys: KeyColumns<'_> = executions.into_iter().collect();
    keys.bound(READ).fetch_all(connection).await?.iter().map(decode::execution_key).collect()
}

/// Only failures are written: that an event is completed follows from its actions.
async fn fail_events(
    connection: &mut PgConnection,
    plan: &SettlePlan<'_>,
    now: Timestamp,
) -> PostgresResult<()> {
    const FAIL: &str = "
UPDATE events e
SET verdict = 'failed', error = coalesce(k.error, e.error), closed_at = $4
FROM unnest($1::text[], $2::uuid[], $3::text[]) AS k(tenant, event_id, error)
WHERE e.tenant = k.tenant AND e.event_id = k.event_id";
    let failed: Vec<_> =
        plan.events.iter().filter(|(_, (status, _))| *status == EventStatus::Failed).collect();
    if failed.is_empty() {
        return Ok(());
    }
    sqlx::query(FAIL)
        .bind(failed.iter().map(|((tenant, _), _)| tenant.as_str()).collect::<Vec<_>>())
        .bind(failed.iter().map(|((_, event), _)| event.0).collect::<Vec<Uuid>>())
        .bind(failed.iter().map(|(_, (_, error))| error.map(decode::strip_nul)).collect::<Vec<_>>())
        .bind(now.as_millis())
        .execute(connection)
        .await?;
    Ok(())
}

/// The first pause sets the reason; an ended execution is not paused.
async fn pause_executions(
    connection: &mut PgConnection,
    plan: &SettlePlan<'_>,
    now: Timestamp,
) -> PostgresResult<()> {
    const PAUSE: &str = "
UPDATE executions x
SET paused_reason = k.reason, updated_at = $4
FROM unnest($1::text[], $2::text[], $3::text[]) AS k(tenant, execution_id, reason)
WHERE x.tenant = k.tenant AND x.execution_id = k.execution_id
  AND x.phase = 'active' AND x.paused_reason IS NULL";
    if plan.pauses.is_empty() {
        return Ok(());
    }
    let keys: KeyColumns<'_> = plan.pauses.keys().copied().collect();
    keys.bound(PAUSE)
        .bind(plan.pauses.values().map(|reason| decode::strip_nul(reason)).collect::<Vec<_>>())
        .bind(now.as_millis())
        .execute(connection)
        .await?;
    Ok(())
}

async fn open_incidents(
    connection: &mut PgConnection,
    plan: &SettlePlan<'_>,
    events: &LockedEvents,
    phases: &HashMap<ExecutionKey, ExecutionPhase>,
    now: Timestamp,
) -> PostgresResult<()> {
    let mut incidents = Vec::with_capacity(plan.incidents.len());
    for (key, event_id, incident) in plan.incidents.iter().copied() {
        let Some(event) = events.get(&(key.execution.tenant.clone(), event_id)) else { continue };
        if !phases.get(&key.execution).is_none_or(|phase| opens_incident(*phase, Some(&key.action))) {
            continue;
        }
        incidents.push(OpenedIncident {
            execution: &key.execution,
            definition: &event.definition,
            event_id,
            action: Some(key),
            incident,
        });
    }
    incident_rows::open(connection, &incidents, now).await
}

/// The freed actions that are leased to the caller, with the results of their dependencies.
async fn hand_out(
    connection: &mut PgConnection,
    plan: &SettlePlan<'_>,
    changed: &[PgRow],
    events: &LockedEvents,
) -> PostgresResult<Vec<LeasedAction>> {
    let rows = changed
        .iter()
        .map(|row| Ok((decode::action_key(row)?, row)))
        .collect::<PostgresResult<HashMap<ActionKey, &PgRow>>>()?;
    let is_leased =
        |key: &ActionKey| plan.actions.get(key).is_some_and(|row| row.status == ActionStatus::Leased);
    let mut leased = Vec::new();
    for (key, needs) in plan.freed.iter().filter(|(key, _)| is_leased(key)) {
        let Some(row) = rows.get(key) else { continue };
        let event = events.get(&(key.execution.tenant.clone(), decode::event_id(row)?));
        let Some(LockedEvent { definition, traceparent, .. }) = event else { continue };
        leased
            .push((action_rows::decode_leased(row, definition.clone(), traceparent.clone())?, needs.clone()));
    }
    action_rows::with_results(connection, leased).await
}
