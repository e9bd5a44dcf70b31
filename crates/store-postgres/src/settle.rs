//! Recording what came of attempts.
//!
//! Locks: the executions that may have to be paused, then the events, then the actions, each in the order
//! of their keys. The lock on the event is what makes two actions that settle at the same instant see
//! each other; without it each would find the other unsettled and the event would stay `processing`.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use millstream_core::id::{
    ActionKey, DefinitionRef, Epoch, EventId, ExecutionKey, Name, Seq, TenantId, WorkerId,
};
use millstream_core::planted::{self, Bug};
use millstream_core::raw::RawJson;
use millstream_core::status::{ActionStatus, EventStatus};
use millstream_core::time::Timestamp;
use millstream_store::Result;
use millstream_store::action_store::{
    AfterFailure, LeasedAction, SettleVerdict, Settled, Settlement, Settling,
};
use millstream_store::execution_store::LeaseGrant;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use crate::action_rows::{self, ActionColumns, millis};
use crate::connect::PostgresStore;
use crate::decode;
use crate::errors::Attempt;
use crate::event_rows::{self, EventColumns};
use crate::execution_store::{KeyColumns, LOCK_EXECUTIONS};
use crate::settle_plain::{self, Recorded};
use crate::settle_plan::{self, ActionRow, Group, SettlePlan, Stored};

impl PostgresStore {
    /// Successes of actions without company in one statement; whatever that does not record, after it.
    pub(crate) async fn settle_all(
        &self,
        worker: &WorkerId,
        batch: &[Settlement],
        grant: LeaseGrant,
        now: Timestamp,
    ) -> Result<Settled> {
        let recorded = self.patiently(|| settle_plain::settle(&self.warm, batch, now)).await?;
        let rest: Vec<Settlement> = batch
            .iter()
            .zip(&recorded)
            .filter(|(_, recorded)| **recorded == Recorded::Not)
            .map(|(settlement, _)| settlement.clone())
            .collect();
        let mut careful = Settled::default();
        if !rest.is_empty() {
            careful = self.patiently(|| self.settle_carefully(worker, &rest, grant, now)).await?;
        }
        let mut verdicts = careful.verdicts.into_iter();
        let verdicts = recorded.into_iter().map(|recorded| match recorded {
            Recorded::Here => SettleVerdict::Recorded { event: EventStatus::Completed },
            Recorded::Not => verdicts.next().unwrap_or(SettleVerdict::Stale),
        });
        Ok(Settled { verdicts: verdicts.collect(), ..careful })
    }

    async fn settle_carefully(
        &self,
        worker: &WorkerId,
        batch: &[Settlement],
        grant: LeaseGrant,
        now: Timestamp,
    ) -> Attempt<Settled> {
        let mut transaction = self.pool.begin().await?;
        lock_executions_to_pause(&mut transaction, batch).await?;
        let events = lock_events(&mut transaction, batch).await?;
        let groups = lock_actions(&mut transaction, batch).await?;
        let stored = Stored {
            statuses: events.iter().map(|(id, event)| (id.clone(), event.status)).collect(),
            cancelled: read_cancelled(&mut transaction, batch).await?,
        };
        let plan = settle_plan::plan(batch, groups, &stored, grant.slots);
        let verdicts = plan.verdicts(&stored.statuses);
        if plan.is_empty() {
            transaction.rollback().await?;
            return Ok(Settled { verdicts, leased: Vec::new(), unleased: 0 });
        }
        let changed = update_actions(&mut transaction, &plan, worker, grant, now).await?;
        fail_events(&mut transaction, &plan, now).await?;
        pause_executions(&mut transaction, &plan, now).await?;
        if !plan.emitted.is_empty() {
            let emitted: EventColumns<'_> = plan.emitted.iter().copied().collect();
            event_rows::emit(&mut transaction, &emitted, now).await?;
        }
        let leased = hand_out(&mut transaction, &plan, &changed, &events).await?;
        transaction.commit().await?;
        let unleased = plan.freed.len() - leased.len();
        Ok(Settled { verdicts, leased, unleased })
    }
}

struct LockedEvent {
    status: EventStatus,
    traceparent: Option<String>,
    definition: DefinitionRef,
}

/// The statement as it is, unless a test took its lock away.
fn locking(statement: &'static str, lock: &str) -> &'static str {
    if planted::is(Bug::SettleWithoutLock) {
        return statement.strip_suffix(lock).unwrap_or(statement);
    }
    statement
}

async fn lock_executions_to_pause(connection: &mut PgConnection, batch: &[Settlement]) -> Attempt<()> {
    let pauses = batch.iter().filter(|settlement| match &settlement.outcome {
        Settling::Failed { then: AfterFailure::Pause { .. }, .. } => true,
        Settling::Failed { then: AfterFailure::Emit(_), .. }
        | Settling::Succeeded { .. }
        | Settling::Retry { .. } => false,
    });
    let executions: BTreeSet<&ExecutionKey> =
        pauses.map(|settlement| &settlement.lease.key.execution).collect();
    if !executions.is_empty() {
        let keys: KeyColumns<'_> = executions.into_iter().collect();
        keys.bound(LOCK_EXECUTIONS).execute(connection).await?;
    }
    Ok(())
}

async fn lock_events(
    connection: &mut PgConnection,
    batch: &[Settlement],
) -> Attempt<BTreeMap<(TenantId, EventId), LockedEvent>> {
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
    let rows = sqlx::query(locking(LOCK, "\nFOR NO KEY UPDATE OF e"))
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

/// Which executions of actions to be tried again were cancelled. Asked after the events are locked, in
/// a statement of its own: a cancellation locks them too, so it is seen here, or it will see these
/// actions ready and cancel them itself.
async fn read_cancelled(
    connection: &mut PgConnection,
    batch: &[Settlement],
) -> Attempt<BTreeSet<ExecutionKey>> {
    const READ: &str = "
SELECT x.tenant, x.execution_id
FROM unnest($1::text[], $2::text[]) AS k(tenant, execution_id)
JOIN executions x ON x.tenant = k.tenant AND x.execution_id = k.execution_id
WHERE x.phase = 'cancelled'";
    let retried = batch.iter().filter(|settlement| match &settlement.outcome {
        Settling::Retry { .. } => true,
        Settling::Succeeded { .. } | Settling::Failed { .. } => false,
    });
    let executions: BTreeSet<&ExecutionKey> =
        retried.map(|settlement| &settlement.lease.key.execution).collect();
    if executions.is_empty() {
        return Ok(BTreeSet::new());
    }
    let keys: KeyColumns<'_> = executions.into_iter().collect();
    keys.bound(READ).fetch_all(connection).await?.iter().map(decode::execution_key).collect()
}

/// All actions of the transitions concerned, not only those that settle.
async fn lock_actions(
    connection: &mut PgConnection,
    batch: &[Settlement],
) -> Attempt<BTreeMap<(ExecutionKey, Seq), Group>> {
    const LOCK: &str = "
SELECT a.tenant, a.execution_id, a.seq, a.action, a.event_id, a.ordinal, a.needs, a.status, a.epoch
FROM unnest($1::text[], $2::text[], $3::bigint[]) AS k(tenant, execution_id, seq)
JOIN actions a ON a.tenant = k.tenant AND a.execution_id = k.execution_id AND a.seq = k.seq
ORDER BY a.tenant, a.execution_id, a.seq, a.action
FOR NO KEY UPDATE OF a";
    let groups: BTreeSet<(&ExecutionKey, Seq)> =
        batch.iter().map(|settlement| (&settlement.lease.key.execution, settlement.lease.key.seq)).collect();
    let keys: KeyColumns<'_> = groups.iter().map(|(execution, _)| *execution).collect();
    let seqs: Vec<i64> = groups.iter().map(|(_, seq)| seq.0).collect();
    let rows =
        keys.bound(locking(LOCK, "\nFOR NO KEY UPDATE OF a")).bind(&seqs).fetch_all(connection).await?;
    let mut found: BTreeMap<(ExecutionKey, Seq), Group> = BTreeMap::new();
    for row in &rows {
        let key = decode::action_key(row)?;
        let action = ActionRow {
            event_id: decode::event_id(row)?,
            ordinal: row.try_get("ordinal")?,
            needs: action_rows::needs(row)?,
            status: decode::parsed(row, "status")?,
            epoch: Epoch(row.try_get("epoch")?),
        };
        found.entry((key.execution, key.seq)).or_default().insert(key.action, action);
    }
    Ok(found)
}

/// Returns the rows that are leased now, complete but for `definition`, `version` and `traceparent`.
async fn update_actions(
    connection: &mut PgConnection,
    plan: &SettlePlan<'_>,
    worker: &WorkerId,
    grant: LeaseGrant,
    now: Timestamp,
) -> Attempt<Vec<PgRow>> {
    const UPDATE: &str = "
WITH clock AS MATERIALIZED (
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now
), updated AS (
    UPDATE actions a
    SET status = k.status,
        attempts = a.attempts + CASE WHEN k.status = 'leased' THEN 1 ELSE 0 END,
        epoch = a.epoch + CASE WHEN k.status = 'leased' THEN 1 ELSE 0 END,
        worker_id = CASE k.status WHEN 'leased' THEN $9 WHEN 'ready' THEN NULL ELSE a.worker_id END,
        due_at = CASE k.status WHEN 'leased' THEN clock.now + $10
                               WHEN 'ready' THEN coalesce(k.due_at, clock.now) END,
        result = coalesce(k.result, a.result),
        error = k.error,
        handled = k.handled,
        settled_at = CASE WHEN k.status NOT IN ('leased', 'ready') THEN $11 END
    FROM clock, unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[],
                       $8::bigint[], $12::boolean[])
        AS k(tenant, execution_id, seq, action, status, result, error, due_at, handled)
    WHERE a.tenant = k.tenant AND a.execution_id = k.execution_id AND a.seq = k.seq AND a.action = k.action
    RETURNING a.*
)
SELECT * FROM updated WHERE status = 'leased'";
    let columns: ActionColumns<'_> = plan.actions.keys().collect();
    let updates = || plan.actions.values();
    Ok(columns
        .bound(UPDATE)
        .bind(updates().map(|update| update.status.as_str()).collect::<Vec<_>>())
        .bind(updates().map(|update| update.result.map(RawJson::as_str)).collect::<Vec<_>>())
        .bind(updates().map(|update| update.error.map(RawJson::as_str)).collect::<Vec<_>>())
        .bind(updates().map(|update| update.due_at.map(Timestamp::as_millis)).collect::<Vec<_>>())
        .bind(worker.as_str())
        .bind(millis(grant.ttl))
        .bind(now.as_millis())
        .bind(updates().map(|update| action_rows::handled(update.handling)).collect::<Vec<_>>())
        .fetch_all(connection)
        .await?)
}

/// That an event is completed is read off its actions.
async fn fail_events(connection: &mut PgConnection, plan: &SettlePlan<'_>, now: Timestamp) -> Attempt<()> {
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
        .bind(failed.iter().map(|(_, (_, error))| error.map(decode::message)).collect::<Vec<_>>())
        .bind(now.as_millis())
        .execute(connection)
        .await?;
    Ok(())
}

/// Whoever paused an execution first has said why; one that has ended cannot be held up.
async fn pause_executions(
    connection: &mut PgConnection,
    plan: &SettlePlan<'_>,
    now: Timestamp,
) -> Attempt<()> {
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
        .bind(plan.pauses.values().map(|reason| decode::message(reason)).collect::<Vec<_>>())
        .bind(now.as_millis())
        .execute(connection)
        .await?;
    Ok(())
}

/// The freed actions that are leased to the caller, with the results that they need.
async fn hand_out(
    connection: &mut PgConnection,
    plan: &SettlePlan<'_>,
    changed: &[PgRow],
    events: &BTreeMap<(TenantId, EventId), LockedEvent>,
) -> Attempt<Vec<LeasedAction>> {
    let leased: Vec<&(ActionKey, Vec<Name>)> = plan
        .freed
        .iter()
        .filter(|(key, _)| plan.actions.get(key).is_some_and(|row| row.status == ActionStatus::Leased))
        .collect();
    let rows = changed
        .iter()
        .map(|row| Ok((decode::action_key(row)?, row)))
        .collect::<Attempt<HashMap<ActionKey, &PgRow>>>()?;
    let needed: Vec<ActionKey> =
        leased.iter().flat_map(|(key, needs)| action_rows::needed(key, needs)).collect();
    let results = action_rows::read_results(connection, &needed).await?;
    let mut handed = Vec::with_capacity(leased.len());
    for (key, needs) in leased {
        let Some(row) = rows.get(key) else { continue };
        let event_id = decode::event_id(row)?;
        let Some(event) = events.get(&(key.execution.tenant.clone(), event_id)) else { continue };
        handed.push(LeasedAction {
            lease: millstream_store::action_store::Lease {
                key: key.clone(),
                epoch: Epoch(row.try_get("epoch")?),
            },
            event_id,
            definition: event.definition.clone(),
            attempt: row.try_get("attempts")?,
            input: decode::json_option(row, "input")?,
            scope: decode::json_option(row, "scope")?,
            results: action_rows::results_of(key, needs, &results),
            traceparent: event.traceparent.clone(),
            lease_until: decode::time(row, "due_at")?,
        });
    }
    Ok(handed)
}
