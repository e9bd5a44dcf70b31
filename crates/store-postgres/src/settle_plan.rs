//! Settlement plan: the effects of outcomes on actions and their events. Pure.
//!
//! All actions of the transitions concerned are known here, and their events are locked: of two concurrent
//! settlements the second sees the writes of the first. [`settling`](millstream_store::settling) decides the
//! consequences of outcomes.

use std::collections::BTreeMap;

use millstream_model::action_queue::ActionQueue;
use millstream_model::id::{ActionKey, EventId, ExecutionKey, Name, TenantId};
use millstream_model::incident::NewIncident;
use millstream_model::status::EventStatus;
use millstream_model::time::Timestamp;
use millstream_store::action_store::{AfterFailure, SettleOutcome, SettleVerdict, Settlement};
use millstream_store::event_log::EventSubmission;
use millstream_store::execution_store::LeaseGrant;
use millstream_store::settling::SettledState;

use crate::action_groups::{self, ActionGroup, ActionUpdates, AttemptChange, ColumnChange, LockedGroups};

#[derive(Debug, Default)]
pub(crate) struct SettlePlan<'a> {
    pub actions: ActionUpdates<'a>,
    /// New statuses of events, with the reason where they failed.
    pub events: BTreeMap<(TenantId, EventId), (EventStatus, Option<&'a str>)>,
    pub pauses: BTreeMap<&'a ExecutionKey, &'a str>,
    /// In the order of the batch, each with the event that fails.
    pub incidents: Vec<(&'a ActionKey, EventId, &'a NewIncident)>,
    pub emitted: Vec<&'a EventSubmission>,
    /// Actions that became ready, with their dependencies.
    pub freed: Vec<(ActionKey, Vec<Name>)>,
    /// In the order of the batch; `None` is stale.
    recorded: Vec<Option<PlannedSettlement>>,
}

#[derive(Debug)]
struct PlannedSettlement {
    event: (TenantId, EventId),
    /// Of an action that is alone: the event's status if it were the only action.
    alone: Option<EventStatus>,
}

/// Existing events and their statuses.
pub(crate) type EventStatuses = BTreeMap<(TenantId, EventId), EventStatus>;

impl SettlePlan<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }

    pub(crate) fn verdicts(&self, statuses: &EventStatuses) -> Vec<SettleVerdict> {
        let verdict = |recorded: &Option<PlannedSettlement>| {
            let Some(PlannedSettlement { event: id, alone }) = recorded else { return SettleVerdict::Stale };
            let now = self.events.get(id).map(|(status, _)| *status).or_else(|| statuses.get(id).copied());
            match (now, alone) {
                (Some(EventStatus::Processing), Some(event)) => SettleVerdict::Recorded { event: *event },
                (Some(event), _) => SettleVerdict::Recorded { event },
                (None, _) => SettleVerdict::Stale,
            }
        };
        self.recorded.iter().map(verdict).collect()
    }
}

/// `locked` and `statuses` are the stored state; `locked` follows the plan as it grows.
pub(crate) fn plan_settlements<'a>(
    batch: &'a [Settlement],
    mut locked: LockedGroups,
    statuses: &EventStatuses,
    grant: &LeaseGrant,
    now: Timestamp,
) -> SettlePlan<'a> {
    let mut plan = SettlePlan::default();
    for settlement in batch {
        let recorded = record_outcome(settlement, &mut locked, statuses, &mut plan, now);
        plan.recorded.push(recorded);
    }
    let mut slots = grant.slots;
    let mut leases = |queue: &ActionQueue| {
        let leases = slots > 0 && grant.serves(queue);
        slots -= usize::from(leases);
        leases
    };
    for (key, group) in &mut locked.together {
        plan.freed.extend(action_groups::add_consequences(key, group, &mut plan.actions, &mut leases));
        complete_event(&key.0, group, statuses, &mut plan);
    }
    for (key, group) in &mut locked.alone {
        let key = (key.execution.clone(), key.seq);
        plan.freed.extend(action_groups::add_consequences(&key, group, &mut plan.actions, &mut leases));
    }
    plan
}

/// `None` when the lease is lost.
fn record_outcome<'a>(
    settlement: &'a Settlement,
    locked: &mut LockedGroups,
    statuses: &EventStatuses,
    plan: &mut SettlePlan<'a>,
    now: Timestamp,
) -> Option<PlannedSettlement> {
    let key = &settlement.lease.key;
    let is_alone = locked.alone.contains_key(key);
    let group = locked.group_of(key)?;
    if !group.graph.holds_lease(&key.action, settlement.lease.epoch) {
        return None;
    }
    let event = (key.execution.tenant.clone(), group.event_id);
    let becomes = group.graph.record_outcome(&key.action, &settlement.outcome, now);
    let status = becomes.status();
    let update = action_groups::update_of(&mut plan.actions, key.clone(), status);
    match becomes {
        SettledState::Succeeded | SettledState::Failed | SettledState::Cancelled | SettledState::Skipped => {
            update.closing = Some(false);
        }
        SettledState::Ready(at) => update.due_at = Some(at),
        SettledState::Postponed(at) => {
            update.due_at = Some(at);
            update.count = AttemptChange::OneLess;
        }
        SettledState::Awaiting(until) => update.due_at = until,
        SettledState::Closing => update.closing = Some(true),
    }
    match &settlement.outcome {
        SettleOutcome::Succeeded { result, emit } => {
            update.result = Some(result);
            update.error = ColumnChange::Gone;
            plan.emitted.extend(emit.as_deref());
        }
        SettleOutcome::Retry { error, at: _ } => update.error = ColumnChange::Now(error),
        SettleOutcome::Postponed { error: Some(error), .. } => update.error = ColumnChange::Now(error),
        SettleOutcome::Postponed { error: None, .. } | SettleOutcome::Awaiting { .. } => {}
        SettleOutcome::Failed { error, then } => {
            update.error = ColumnChange::Now(error);
            update.handling = Some(then.handling());
            match then {
                AfterFailure::Emit(emitted) => plan.emitted.push(emitted),
                AfterFailure::Compensate => {}
                AfterFailure::Incident(incident) => {
                    if statuses.get(&event) == Some(&EventStatus::Processing) {
                        let failed = (EventStatus::Failed, Some(incident.reason.as_str()));
                        plan.events.entry(event.clone()).or_insert(failed);
                    }
                    plan.pauses.entry(&key.execution).or_insert(&incident.reason);
                    plan.incidents.push((key, event.1, incident));
                }
            }
        }
    }
    let by_itself = if status.is_settled() { EventStatus::Completed } else { EventStatus::Processing };
    Some(PlannedSettlement { event, alone: is_alone.then_some(by_itself) })
}

/// An event that is being processed is complete when none of its actions is open.
fn complete_event(
    execution: &ExecutionKey,
    group: &ActionGroup,
    statuses: &EventStatuses,
    plan: &mut SettlePlan<'_>,
) {
    let event = (execution.tenant.clone(), group.event_id);
    let processing = statuses.get(&event) == Some(&EventStatus::Processing);
    if processing && !plan.events.contains_key(&event) && group.graph.is_settled() {
        plan.events.insert(event, (EventStatus::Completed, None));
    }
}
