//! Incidents, in memory.

use std::collections::BTreeMap;

use millstream_model::id::{ActionKey, EventId, ExecutionKey, IncidentId, Name, TenantId};
use millstream_model::incident::{NewIncident, incident_fingerprint};
use millstream_model::status::{ActionStatus, EventStatus, IncidentResolution};
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::action_store::FailureHandling;
use millstream_store::incidents::{
    IncidentDecision, IncidentFilter, IncidentGroupView, IncidentView, Incidents, ResolveVerdict,
    ResolvedView, opens_incident,
};
use millstream_store::intervention::DecisionRecord;
use millstream_store::reopening::{ReopenCandidate, choose_reopened};

use crate::MemoryStore;
use crate::settle::{transition_actions, write_consequences};
use crate::tables::{MemoryEvent, MemoryExecution, MemoryTables};

#[async_trait::async_trait]
impl Incidents for MemoryStore {
    async fn list_incidents(
        &self,
        tenant: &TenantId,
        filter: &IncidentFilter,
        after: Option<i64>,
        limit: usize,
    ) -> StoreResult<Vec<IncidentView>> {
        let tables = self.lock_tables();
        let matches = |view: &&IncidentView| {
            view.execution.tenant == *tenant
                && after.is_none_or(|after| view.position < after)
                && filter.status.is_none_or(|status| status == view.status())
                && filter.fingerprint.as_ref().is_none_or(|wanted| *wanted == view.fingerprint)
                && filter.execution.as_ref().is_none_or(|wanted| *wanted == view.execution.execution)
                && filter.definition.as_ref().is_none_or(|wanted| *wanted == view.definition.name)
        };
        Ok(tables.incidents.iter().rev().filter(matches).take(limit).cloned().collect())
    }

    async fn incident_groups(&self, tenant: &TenantId, limit: usize) -> StoreResult<Vec<IncidentGroupView>> {
        let tables = self.lock_tables();
        let mut groups: BTreeMap<&str, IncidentGroupView> = BTreeMap::new();
        let open = tables.incidents.iter().filter(|view| view.resolved.is_none());
        for view in open.filter(|view| view.execution.tenant == *tenant) {
            let group = groups.entry(&view.fingerprint).or_insert_with(|| IncidentGroupView {
                fingerprint: view.fingerprint.clone(),
                definition: view.definition.name.clone(),
                action: view.action.as_ref().map(|key| key.action.clone()),
                class: view.class.clone(),
                count: 0,
                first_seen: view.opened_at,
                last_seen: view.opened_at,
                sample: view.clone(),
            });
            group.count += 1;
            group.first_seen = group.first_seen.min(view.opened_at);
            group.last_seen = group.last_seen.max(view.opened_at);
            group.sample = view.clone();
        }
        let mut groups: Vec<_> = groups.into_values().collect();
        groups.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.fingerprint.cmp(&b.fingerprint)));
        groups.truncate(limit);
        Ok(groups)
    }

    async fn find_incidents(
        &self,
        keys: &[(TenantId, IncidentId)],
    ) -> StoreResult<Vec<Option<IncidentView>>> {
        let tables = self.lock_tables();
        let find = |(tenant, id): &(TenantId, IncidentId)| {
            tables.incidents.iter().find(|view| view.execution.tenant == *tenant && view.id == *id).cloned()
        };
        Ok(keys.iter().map(find).collect())
    }

    async fn resolve_incidents(
        &self,
        tenant: &TenantId,
        batch: &[(IncidentId, IncidentDecision)],
        by: &DecisionRecord,
        now: Timestamp,
    ) -> StoreResult<Vec<ResolveVerdict>> {
        let mut tables = self.lock_tables();
        Ok(batch.iter().map(|(id, how)| tables.resolve_incident(tenant, *id, how, by, now)).collect())
    }
}

impl MemoryTables {
    /// Skipped where no person has to decide about it.
    pub(crate) fn open_incident(
        &mut self,
        execution: &ExecutionKey,
        event_id: EventId,
        action: Option<&ActionKey>,
        incident: &NewIncident,
        now: Timestamp,
    ) {
        if self
            .executions
            .get(execution)
            .is_some_and(|row| opens_incident(row.phase, action.map(|key| &key.action)))
        {
            self.insert_incident(execution, event_id, action, incident, now);
        }
    }

    pub(crate) fn insert_incident(
        &mut self,
        execution: &ExecutionKey,
        event_id: EventId,
        action: Option<&ActionKey>,
        incident: &NewIncident,
        now: Timestamp,
    ) {
        let Some(row) = self.executions.get(execution) else { return };
        let definition = row.definition.clone();
        let position = i64::try_from(self.incidents.len()).unwrap_or(i64::MAX) + 1;
        self.incidents.push(IncidentView {
            id: incident.id,
            position,
            execution: execution.clone(),
            event_id,
            action: action.cloned(),
            class: incident.class.clone(),
            fingerprint: incident_fingerprint(
                &definition.name,
                action.map(|key| &key.action),
                &incident.class,
            ),
            definition,
            reason: incident.reason.clone(),
            opened_at: now,
            resolved: None,
        });
    }

    /// An ended execution has no open incidents.
    pub(crate) fn end_incidents(&mut self, execution: &ExecutionKey, now: Timestamp) {
        let by = DecisionRecord { actor: None, reason: None };
        for view in &mut self.incidents {
            if view.execution == *execution && view.resolved.is_none() {
                resolve_incident(view, IncidentResolution::Ended, &by, now);
            }
        }
    }

    /// The event was retried as a whole.
    pub(crate) fn resolve_of_event(
        &mut self,
        tenant: &TenantId,
        event: EventId,
        by: &DecisionRecord,
        now: Timestamp,
    ) {
        for view in &mut self.incidents {
            if view.execution.tenant == *tenant && view.event_id == event && view.resolved.is_none() {
                resolve_incident(view, IncidentResolution::Retry, by, now);
            }
        }
    }

    fn resolve_incident(
        &mut self,
        tenant: &TenantId,
        id: IncidentId,
        how: &IncidentDecision,
        by: &DecisionRecord,
        now: Timestamp,
    ) -> ResolveVerdict {
        let of = |view: &&mut IncidentView| view.execution.tenant == *tenant && view.id == id;
        let Some(view) = self.incidents.iter_mut().find(of) else { return ResolveVerdict::NotFound };
        if let Some(resolved) = &view.resolved {
            return ResolveVerdict::Already { resolution: resolved.resolution };
        }
        resolve_incident(view, how.resolution(), by, now);
        let (key, event_id, action) = (view.execution.clone(), view.event_id, view.action.clone());
        let emit = match how {
            IncidentDecision::Retry | IncidentDecision::RetryWith { .. } => None,
            IncidentDecision::Skip { emit, .. } => emit.as_deref(),
            IncidentDecision::End { event, .. } => Some(&**event),
        };
        if let Some(event) = emit {
            self.insert_event(event, now);
        }
        let Some((row, accept_no)) = self.event_of(&key, event_id) else { return ResolveVerdict::NotFound };
        row.record_decision(
            how.resolution().as_str(),
            Some(event_id),
            by.actor.as_deref(),
            by.reason.as_deref(),
            now,
        );
        if let IncidentDecision::End { .. } = how {
            return ResolveVerdict::Done { execution: key };
        }
        match &action {
            Some(action) => row.resolve_action(action, how, now),
            None => {
                let dead = |event: &&mut MemoryEvent| event.view.status == EventStatus::Dead;
                if let Some(event) = row.events.get_mut(&accept_no).filter(dead) {
                    event.view.status = match how {
                        IncidentDecision::Skip { .. } => EventStatus::Rejected,
                        IncidentDecision::Retry
                        | IncidentDecision::RetryWith { .. }
                        | IncidentDecision::End { .. } => {
                            event.view.attempts = 0;
                            event.view.error = None;
                            event.view.completed_at = None;
                            EventStatus::Pending
                        }
                    };
                }
            }
        }
        row.resume_if_unblocked(now);
        ResolveVerdict::Done { execution: key }
    }
}

impl MemoryExecution {
    fn resolve_action(&mut self, key: &ActionKey, how: &IncidentDecision, now: Timestamp) {
        let waiting = self.skipped_because_of(key);
        let Some(action) = self.actions.get_mut(&(key.seq, key.action.clone())) else { return };
        let event_id = action.view.event_id;
        match how {
            IncidentDecision::Skip { result, .. } => {
                action.settle_as(ActionStatus::Succeeded, now);
                action.view.result = Some(result.clone());
                action.view.error = None;
            }
            IncidentDecision::Retry | IncidentDecision::RetryWith { .. } | IncidentDecision::End { .. } => {
                action.become_ready(now);
                action.view.attempts = 0;
                action.view.error = None;
                if let IncidentDecision::RetryWith { input } = how {
                    action.view.input = Some(input.clone());
                    action.view.revision += 1;
                }
            }
        }
        for name in waiting {
            if let Some(action) = self.actions.get_mut(&(key.seq, name)) {
                action.view.status = ActionStatus::Waiting;
                action.view.settled_at = None;
            }
        }
        let followed = transition_actions(self, key.seq).propagate_outcomes();
        write_consequences(self, key.seq, followed, now);
        let is_lost = |action: &crate::tables::MemoryAction| {
            action.view.status == ActionStatus::Failed && action.handling == FailureHandling::Unhandled
        };
        let still_failed = self.actions.iter().any(|((seq, _), action)| *seq == key.seq && is_lost(action));
        if let Some(event) = self.event_by_id(event_id)
            && event.view.status == EventStatus::Failed
            && !still_failed
        {
            event.view.status = EventStatus::Processing;
            event.view.error = None;
            event.view.completed_at = None;
        }
        self.complete_settled_events(now);
    }

    /// The actions that wait again when this action, and no other, is reopened.
    fn skipped_because_of(&self, key: &ActionKey) -> Vec<Name> {
        let of_seq = self.actions.iter().filter(|((seq, _), _)| *seq == key.seq);
        let settled = of_seq.map(|((_, name), action)| {
            // This decision treats other failures as handled.
            let handling =
                if *name == key.action { FailureHandling::Unhandled } else { FailureHandling::Handled };
            let settled =
                ReopenCandidate { needs: action.view.needs.clone(), status: action.view.status, handling };
            (name.clone(), settled)
        });
        choose_reopened(&settled.collect()).waiting.into_iter().collect()
    }
}

fn resolve_incident(
    incident: &mut IncidentView,
    resolution: IncidentResolution,
    by: &DecisionRecord,
    at: Timestamp,
) {
    let (actor, reason) = (by.actor.clone(), by.reason.clone());
    incident.resolved = Some(ResolvedView { resolution, actor, reason, at });
}
