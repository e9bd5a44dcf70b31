//! Decisions about stuck work, in memory.

use millstream_model::id::{EventId, ExecutionKey, TenantId};
use millstream_model::status::{ActionStatus, EventStatus};
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::intervention::{
    DecisionRecord, EventBurial, ExecutionPause, Interventions, RecordedDecision, RetryVerdict,
};
use millstream_store::reopening::{ReopenCandidate, choose_reopened};

use crate::MemoryStore;
use crate::tables::{MemoryAction, MemoryExecution};

#[async_trait::async_trait]
impl Interventions for MemoryStore {
    async fn bury_events(&self, burials: &[EventBurial], now: Timestamp) -> StoreResult<()> {
        let mut tables = self.lock_tables();
        for burial in burials {
            let Some((row, accept_no)) = tables.event_of(&burial.execution, burial.event_id) else {
                continue;
            };
            let Some(event) = row.events.get_mut(&accept_no).filter(|event| event.mailbox_state().is_some())
            else {
                continue;
            };
            event.view.status = EventStatus::Dead;
            event.view.error = Some(burial.error.clone());
            event.view.completed_at = Some(now);
            if !row.phase.is_ended() {
                row.pause_with_reason(&burial.error, now);
            }
            row.record_decision("bury", Some(burial.event_id), None, Some(&burial.error), now);
            tables.open_incident(&burial.execution, burial.event_id, None, &burial.incident, now);
        }
        Ok(())
    }

    async fn pause_executions(&self, pauses: &[ExecutionPause], now: Timestamp) -> StoreResult<()> {
        let mut tables = self.lock_tables();
        for ExecutionPause { execution, incident } in pauses {
            let Some(row) = tables.executions.get_mut(execution) else { continue };
            if row.paused.is_none() {
                row.pause_with_reason(&incident.reason, now);
                row.record_decision("pause", None, None, Some(&incident.reason), now);
            }
            let first = row.events.values().find(|event| event.mailbox_state().is_some());
            let concerned = first.or(row.events.values().last()).map(|event| event.view.event_id);
            let is_open =
                tables.incidents.iter().any(|one| one.execution == *execution && one.resolved.is_none());
            if let (Some(event_id), false) = (concerned, is_open) {
                tables.insert_incident(execution, event_id, None, incident, now);
            }
        }
        Ok(())
    }

    async fn retry_event(
        &self,
        tenant: &TenantId,
        event: EventId,
        by: &DecisionRecord,
        now: Timestamp,
    ) -> StoreResult<RetryVerdict> {
        let mut tables = self.lock_tables();
        let Some((key, accept_no)) = tables.event_index.get(&(tenant.clone(), event)).cloned() else {
            return Ok(RetryVerdict::NotFound);
        };
        let Some(row) = tables.executions.get_mut(&key) else { return Ok(RetryVerdict::NotFound) };
        let Some(found) = row.events.get_mut(&accept_no) else { return Ok(RetryVerdict::NotFound) };
        let status = found.view.status;
        match status {
            EventStatus::Dead => {
                found.view.status = EventStatus::Pending;
                found.view.attempts = 0;
            }
            EventStatus::Failed => {
                found.view.status = EventStatus::Processing;
                reopen_actions(row, event, now);
            }
            EventStatus::Pending
            | EventStatus::Deferred
            | EventStatus::Processing
            | EventStatus::Completed
            | EventStatus::Rejected => return Ok(RetryVerdict::NotApplicable { status }),
        }
        if let Some(found) = row.events.get_mut(&accept_no) {
            found.view.error = None;
            found.view.completed_at = None;
        }
        row.resume_if_unblocked(now);
        row.record_decision("retry", Some(event), by.actor.as_deref(), by.reason.as_deref(), now);
        tables.resolve_of_event(tenant, event, by, now);
        Ok(RetryVerdict::Accepted { execution: key })
    }

    async fn list_decisions(&self, execution: &ExecutionKey) -> StoreResult<Vec<RecordedDecision>> {
        let tables = self.lock_tables();
        Ok(tables.executions.get(execution).map(|row| row.decisions.clone()).unwrap_or_default())
    }
}

fn reopen_actions(row: &mut MemoryExecution, event: EventId, now: Timestamp) {
    let settled = |action: &MemoryAction| ReopenCandidate {
        needs: action.view.needs.clone(),
        status: action.view.status,
        handling: action.handling,
    };
    let of_event = row.actions.iter().filter(|(_, action)| action.view.event_id == event);
    let reopened =
        choose_reopened(&of_event.map(|((_, name), action)| (name.clone(), settled(action))).collect());
    for ((_, name), action) in row.actions.iter_mut().filter(|(_, action)| action.view.event_id == event) {
        if reopened.ready.contains(name) {
            action.become_ready(now);
        } else if reopened.waiting.contains(name) {
            action.view.status = ActionStatus::Waiting;
        } else {
            continue;
        }
        action.view.attempts = 0;
        action.view.error = None;
        action.view.settled_at = None;
    }
}

impl MemoryExecution {
    /// Resumes unless one of its events is still dead or failed.
    pub(crate) fn resume_if_unblocked(&mut self, now: Timestamp) {
        let stuck = |status| matches!(status, EventStatus::Dead | EventStatus::Failed);
        if !self.events.values().any(|event| stuck(event.view.status)) {
            self.paused = None;
            self.updated_at = now;
        }
    }

    pub(crate) fn record_decision(
        &mut self,
        kind: &str,
        event_id: Option<EventId>,
        actor: Option<&str>,
        reason: Option<&str>,
        at: Timestamp,
    ) {
        self.decisions.push(RecordedDecision {
            event_id,
            kind: kind.to_owned(),
            actor: actor.map(str::to_owned),
            reason: reason.map(str::to_owned),
            at,
        });
    }
}
