//! Effects of decisions about incidents. Locks: executions, then events, then actions.
//!
//! The incidents are read twice: once to find the executions to lock, and again under those locks, because a
//! concurrent decision may have changed them. Then the batch is planned in its order, each decision seeing
//! the effects of the ones before it, and written with one statement per kind of row.

use std::collections::{BTreeMap, BTreeSet};

use millstream_model::id::{ActionKey, EventId, ExecutionKey, IncidentId, Name, TenantId};
use millstream_model::status::{ActionStatus, EventStatus, IncidentResolution};
use millstream_model::time::Timestamp;
use millstream_store::action_store::FailureHandling;
use millstream_store::event_log::EventSubmission;
use millstream_store::incidents::{IncidentDecision, IncidentView, ResolveVerdict};
use millstream_store::intervention::DecisionRecord;
use millstream_store::reopening::{ReopenCandidate, choose_reopened};
use millstream_store::status_text;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::action_groups::{self, ActionGroup, ActionUpdates, AttemptChange, ColumnChange, GroupKey};
use crate::connect::PostgresStore;
use crate::errors::PostgresResult;
use crate::event_rows::{self, EventColumns};
use crate::execution_store::{KeyColumns, LOCK_EXECUTIONS};
use crate::intervention::reopen_dead;
use crate::{decode, incident_rows};

impl PostgresStore {
    pub(crate) async fn resolve_once(
        &self,
        tenant: &TenantId,
        batch: &[(IncidentId, IncidentDecision)],
        by: &DecisionRecord,
        now: Timestamp,
    ) -> PostgresResult<Vec<ResolveVerdict>> {
        let mut held = self.warm.hold_pooled().await?;
        let mut transaction = held.begin().await?;
        let asked: BTreeSet<IncidentId> = batch.iter().map(|(id, _)| *id).collect();
        let ids = || asked.iter().map(|id| (tenant, *id));
        let found = incident_rows::read(&mut *transaction, ids()).await?;
        let executions: BTreeSet<&ExecutionKey> = found.iter().map(|view| &view.execution).collect();
        let keys: KeyColumns<'_> = executions.into_iter().collect();
        keys.bound(LOCK_EXECUTIONS).execute(&mut *transaction).await?;
        let found = incident_rows::read(&mut *transaction, ids()).await?;
        let open = || found.iter().filter(|view| view.resolved.is_none());
        let stuck = lock_stuck(&mut transaction, tenant, open().map(|view| view.event_id).collect()).await?;
        let concerned =
            open().filter_map(|view| Some((&view.execution, view.action.as_ref()?.seq))).collect();
        let groups = action_groups::lock(&mut transaction, &concerned).await?;
        let facts =
            ResolveFacts { incidents: found.iter().map(|view| (view.id, view)).collect(), stuck, groups };
        let plan = facts.plan_batch(batch, now);
        if plan.resolved.is_empty() {
            transaction.rollback().await?;
            return Ok(plan.verdicts);
        }
        write_plan(&mut transaction, tenant, &plan, by, now).await?;
        transaction.commit().await?;
        Ok(plan.verdicts)
    }
}

/// Which of these events failed or are dead.
async fn lock_stuck(
    connection: &mut PgConnection,
    tenant: &TenantId,
    events: BTreeSet<EventId>,
) -> PostgresResult<BTreeMap<EventId, EventStatus>> {
    const LOCK: &str = "
SELECT e.event_id, e.verdict
FROM unnest($2::uuid[]) AS k(event_id)
JOIN events e ON e.tenant = $1 AND e.event_id = k.event_id
ORDER BY e.tenant, e.event_id
FOR NO KEY UPDATE OF e";
    let ids: Vec<Uuid> = events.into_iter().map(|event| event.0).collect();
    let rows = sqlx::query(LOCK).bind(tenant.as_str()).bind(&ids).fetch_all(connection).await?;
    let mut stuck = BTreeMap::new();
    for row in &rows {
        if let Some(status) = decode::parsed_option(row, "verdict")? {
            stuck.insert(decode::event_id(row)?, status);
        }
    }
    Ok(stuck)
}

/// The stored rows, under their locks.
struct ResolveFacts<'a> {
    incidents: BTreeMap<IncidentId, &'a IncidentView>,
    stuck: BTreeMap<EventId, EventStatus>,
    groups: BTreeMap<GroupKey, ActionGroup>,
}

#[derive(Default)]
struct ResolvePlan<'a> {
    /// In the order of the batch.
    verdicts: Vec<ResolveVerdict>,
    resolved: BTreeMap<IncidentId, IncidentResolution>,
    /// In the order of the batch.
    decisions: Vec<(&'a ExecutionKey, EventId, IncidentResolution)>,
    actions: ActionUpdates<'a>,
    /// Failed events without a failed and unhandled action any more.
    reopened: BTreeSet<EventId>,
    /// Dead events to be decided again.
    undecided: BTreeSet<EventId>,
    /// Dead events that are given up.
    rejected: BTreeSet<EventId>,
    /// Executions to resume, unless another event keeps them paused.
    resumed: BTreeSet<&'a ExecutionKey>,
    emitted: Vec<&'a EventSubmission>,
}

impl<'a> ResolveFacts<'a> {
    fn plan_batch(mut self, batch: &'a [(IncidentId, IncidentDecision)], now: Timestamp) -> ResolvePlan<'a> {
        let mut plan = ResolvePlan::default();
        for (id, how) in batch {
            let verdict = self.judge_incident(*id, how, &mut plan, now);
            plan.verdicts.push(verdict);
        }
        plan
    }

    fn judge_incident(
        &mut self,
        id: IncidentId,
        how: &'a IncidentDecision,
        plan: &mut ResolvePlan<'a>,
        now: Timestamp,
    ) -> ResolveVerdict {
        let Some(view) = self.incidents.get(&id).copied() else { return ResolveVerdict::NotFound };
        let before = view.resolved.as_ref().map(|resolved| resolved.resolution);
        if let Some(resolution) = before.or_else(|| plan.resolved.get(&id).copied()) {
            return ResolveVerdict::Already { resolution };
        }
        let resolution = how.resolution();
        plan.resolved.insert(id, resolution);
        plan.decisions.push((&view.execution, view.event_id, resolution));
        match how {
            IncidentDecision::Retry | IncidentDecision::RetryWith { .. } => {}
            IncidentDecision::Skip { emit, .. } => plan.emitted.extend(emit.as_deref()),
            IncidentDecision::End { event, .. } => {
                plan.emitted.push(event);
                return ResolveVerdict::Done { execution: view.execution.clone() };
            }
        }
        match &view.action {
            Some(action) => self.resolve_action(action, how, plan, now),
            None => self.resolve_event(view.event_id, how, plan),
        }
        plan.resumed.insert(&view.execution);
        ResolveVerdict::Done { execution: view.execution.clone() }
    }

    fn resolve_event(&mut self, event: EventId, how: &IncidentDecision, plan: &mut ResolvePlan<'a>) {
        if self.stuck.get(&event) != Some(&EventStatus::Dead) {
            return;
        }
        self.stuck.remove(&event);
        match how {
            IncidentDecision::Skip { .. } => plan.rejected.insert(event),
            IncidentDecision::Retry | IncidentDecision::RetryWith { .. } | IncidentDecision::End { .. } => {
                plan.undecided.insert(event)
            }
        };
    }

    fn resolve_action(
        &mut self,
        key: &ActionKey,
        how: &'a IncidentDecision,
        plan: &mut ResolvePlan<'a>,
        now: Timestamp,
    ) {
        let group_key = (key.execution.clone(), key.seq);
        let Some(group) = self.groups.get_mut(&group_key) else { return };
        let waiting = skipped_because_of(group, &key.action);
        let Some(member) = group.graph.members.get_mut(&key.action) else { return };
        match how {
            IncidentDecision::Skip { result, .. } => {
                member.status = ActionStatus::Succeeded;
                member.settled_at = Some(now);
                member.closing = false;
                let update = action_groups::update_of(&mut plan.actions, key.clone(), member.status);
                update.result = Some(result);
                update.error = ColumnChange::Gone;
                update.closing = Some(false);
            }
            IncidentDecision::Retry | IncidentDecision::RetryWith { .. } | IncidentDecision::End { .. } => {
                member.status = ActionStatus::Ready;
                member.settled_at = None;
                let update = action_groups::update_of(&mut plan.actions, key.clone(), member.status);
                update.error = ColumnChange::Gone;
                update.count = AttemptChange::Begins;
                update.begins = true;
                if let IncidentDecision::RetryWith { input } = how {
                    update.input = Some(input);
                }
            }
        }
        for action in waiting {
            let Some(member) = group.graph.members.get_mut(&action) else { continue };
            member.status = ActionStatus::Waiting;
            member.settled_at = None;
            let key = ActionKey { action, ..key.clone() };
            action_groups::update_of(&mut plan.actions, key, ActionStatus::Waiting);
        }
        // Workers that serve their queues lease them.
        action_groups::add_consequences(&group_key, group, &mut plan.actions, |_| false);
        let is_lost = |action: &Name| group.handling.get(action) == Some(&FailureHandling::Unhandled);
        let still_failed = group
            .graph
            .members
            .iter()
            .any(|(action, member)| member.status == ActionStatus::Failed && is_lost(action));
        if !still_failed && self.stuck.get(&group.event_id) == Some(&EventStatus::Failed) {
            self.stuck.remove(&group.event_id);
            plan.reopened.insert(group.event_id);
        }
    }
}

/// The actions that wait again when this action, and no other, is reopened.
fn skipped_because_of(group: &ActionGroup, action: &Name) -> BTreeSet<Name> {
    let settled = group.graph.members.iter().map(|(name, member)| {
        // This decision treats other failures as handled.
        let handling = if name == action { FailureHandling::Unhandled } else { FailureHandling::Handled };
        (name.clone(), ReopenCandidate { needs: member.needs.clone(), status: member.status, handling })
    });
    choose_reopened(&settled.collect()).waiting
}

async fn write_plan(
    connection: &mut PgConnection,
    tenant: &TenantId,
    plan: &ResolvePlan<'_>,
    by: &DecisionRecord,
    now: Timestamp,
) -> PostgresResult<()> {
    action_groups::write_updates(connection, &plan.actions, None, now).await?;
    write_events(connection, tenant, plan).await?;
    resume_executions(connection, &plan.resumed, now).await?;
    record_decisions(connection, plan, by, now).await?;
    let resolved: Vec<_> = plan.resolved.iter().map(|(id, resolution)| (*id, *resolution)).collect();
    incident_rows::write_resolutions(connection, tenant, &resolved, by, now).await?;
    if !plan.emitted.is_empty() {
        let emitted: EventColumns<'_> = plan.emitted.iter().copied().collect();
        event_rows::emit(connection, &emitted, now).await?;
    }
    Ok(())
}

async fn write_events(
    connection: &mut PgConnection,
    tenant: &TenantId,
    plan: &ResolvePlan<'_>,
) -> PostgresResult<()> {
    const REOPEN: &str = "
UPDATE events e SET verdict = NULL, error = NULL, closed_at = NULL
FROM unnest($2::uuid[]) AS k(event_id)
WHERE e.tenant = $1 AND e.event_id = k.event_id";
    const REJECT: &str = "
UPDATE events e SET verdict = 'rejected'
FROM unnest($2::uuid[]) AS k(event_id)
WHERE e.tenant = $1 AND e.event_id = k.event_id";
    for (statement, events) in [(REOPEN, &plan.reopened), (REJECT, &plan.rejected)] {
        if !events.is_empty() {
            let ids: Vec<Uuid> = events.iter().map(|event| event.0).collect();
            sqlx::query(statement).bind(tenant.as_str()).bind(&ids).execute(&mut *connection).await?;
        }
    }
    reopen_dead(connection, tenant, &plan.undecided).await
}

async fn resume_executions(
    connection: &mut PgConnection,
    executions: &BTreeSet<&ExecutionKey>,
    now: Timestamp,
) -> PostgresResult<()> {
    const RESUME: &str = status_text!(
        "
UPDATE executions x SET paused_reason = NULL, updated_at = $3
FROM unnest($1::text[], $2::text[]) AS k(tenant, execution_id)
WHERE x.tenant = k.tenant AND x.execution_id = k.execution_id
  AND NOT EXISTS (
    SELECT FROM events e
    WHERE e.tenant || '' = k.tenant AND e.execution_id = k.execution_id AND e.verdict IN ({STUCK_EVENTS})
    OFFSET 0)"
    );
    if executions.is_empty() {
        return Ok(());
    }
    let keys: KeyColumns<'_> = executions.iter().copied().collect();
    keys.bound(RESUME).bind(now.as_millis()).execute(connection).await?;
    Ok(())
}

async fn record_decisions(
    connection: &mut PgConnection,
    plan: &ResolvePlan<'_>,
    by: &DecisionRecord,
    now: Timestamp,
) -> PostgresResult<()> {
    const RECORD: &str = "
INSERT INTO decisions (tenant, execution_id, event_id, kind, actor, reason, at)
SELECT k.tenant, k.execution_id, k.event_id, k.kind, $5, $6, $7
FROM unnest($1::text[], $2::text[], $3::uuid[], $4::text[])
    WITH ORDINALITY AS k(tenant, execution_id, event_id, kind, ord)
ORDER BY k.ord";
    let keys: KeyColumns<'_> = plan.decisions.iter().map(|(execution, ..)| *execution).collect();
    keys.bound(RECORD)
        .bind(plan.decisions.iter().map(|(_, event, _)| event.0).collect::<Vec<Uuid>>())
        .bind(plan.decisions.iter().map(|(.., resolution)| resolution.as_str()).collect::<Vec<_>>())
        .bind(by.actor.as_deref().map(decode::strip_nul))
        .bind(by.reason.as_deref().map(decode::strip_nul))
        .bind(now.as_millis())
        .execute(connection)
        .await?;
    Ok(())
}
