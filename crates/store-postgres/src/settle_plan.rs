//! What follows from outcomes: which actions change and how, what becomes of their events. Pure.
//!
//! All actions of the transitions concerned are known here, and their events are locked: of two
//! settlements at the same instant the second sees what the first wrote.

use std::collections::{BTreeMap, BTreeSet};

use millstream_core::id::{ActionKey, Epoch, EventId, ExecutionKey, Name, Seq, TenantId};
use millstream_core::planted::{self, Bug};
use millstream_core::raw::RawJson;
use millstream_core::status::{ActionStatus, EventStatus};
use millstream_core::time::Timestamp;
use millstream_store::action_store::{AfterFailure, Handling, SettleVerdict, Settlement, Settling};
use millstream_store::event_log::NewEvent;

/// An action as it is stored.
#[derive(Debug, Clone)]
pub(crate) struct ActionRow {
    pub event_id: EventId,
    pub ordinal: i32,
    pub needs: Vec<Name>,
    pub status: ActionStatus,
    pub epoch: Epoch,
}

/// The actions of one transition, by name.
pub(crate) type Group = BTreeMap<Name, ActionRow>;

/// How an action is written back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ActionUpdate<'a> {
    pub status: ActionStatus,
    pub result: Option<&'a RawJson>,
    pub error: Option<&'a RawJson>,
    pub handling: Handling,
    /// When a ready one may be tried; `None`: at once.
    pub due_at: Option<Timestamp>,
}

#[derive(Debug, Default)]
pub(crate) struct SettlePlan<'a> {
    pub actions: BTreeMap<ActionKey, ActionUpdate<'a>>,
    /// New statuses of events, with the reason where they failed.
    pub events: BTreeMap<(TenantId, EventId), (EventStatus, Option<&'a str>)>,
    pub pauses: BTreeMap<&'a ExecutionKey, &'a str>,
    pub emitted: Vec<&'a NewEvent>,
    /// Dependents that became ready, the leased ones among them first.
    pub freed: Vec<(ActionKey, Vec<Name>)>,
    /// In the order of the batch; `None` is stale.
    recorded: Vec<Option<(TenantId, EventId)>>,
}

impl SettlePlan<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }

    pub(crate) fn verdicts(
        &self,
        statuses: &BTreeMap<(TenantId, EventId), EventStatus>,
    ) -> Vec<SettleVerdict> {
        let verdict = |id: &Option<(TenantId, EventId)>| {
            let Some(id) = id else { return SettleVerdict::Stale };
            let now = self.events.get(id).map(|(status, _)| *status);
            match now.or_else(|| statuses.get(id).copied()) {
                Some(event) => SettleVerdict::Recorded { event },
                None => SettleVerdict::Stale,
            }
        };
        self.recorded.iter().map(verdict).collect()
    }
}

/// What is stored about the events and executions concerned.
#[derive(Debug, Default)]
pub(crate) struct Stored {
    pub statuses: BTreeMap<(TenantId, EventId), EventStatus>,
    /// Executions that were cancelled.
    pub cancelled: BTreeSet<ExecutionKey>,
}

/// `groups` and `stored` are what is stored; `groups` follows the plan as it grows.
pub(crate) fn plan<'a>(
    batch: &'a [Settlement],
    mut groups: BTreeMap<(ExecutionKey, Seq), Group>,
    stored: &Stored,
    slots: usize,
) -> SettlePlan<'a> {
    let mut plan = SettlePlan::default();
    for settlement in batch {
        record(settlement, &mut groups, stored, &mut plan);
    }
    let mut slots = slots;
    for ((execution, seq), group) in &mut groups {
        let key =
            |action: &Name| ActionKey { execution: execution.clone(), seq: *seq, action: action.clone() };
        for action in skip_dependents(group) {
            plan.actions.insert(key(&action), unexplained(ActionStatus::Skipped));
        }
        for (action, needs) in free_dependents(group) {
            let status = if slots > 0 { ActionStatus::Leased } else { ActionStatus::Ready };
            slots = slots.saturating_sub(1);
            plan.actions.insert(key(&action), unexplained(status));
            plan.freed.push((key(&action), needs));
        }
        complete(execution, group, &stored.statuses, &mut plan);
    }
    plan
}

fn unexplained<'a>(status: ActionStatus) -> ActionUpdate<'a> {
    ActionUpdate { status, result: None, error: None, handling: Handling::Unhandled, due_at: None }
}

fn record<'a>(
    settlement: &'a Settlement,
    groups: &mut BTreeMap<(ExecutionKey, Seq), Group>,
    stored: &Stored,
    plan: &mut SettlePlan<'a>,
) {
    let key = &settlement.lease.key;
    let held = groups
        .get_mut(&(key.execution.clone(), key.seq))
        .and_then(|group| group.get_mut(&key.action))
        .filter(|row| row.status == ActionStatus::Leased)
        .filter(|row| row.epoch == settlement.lease.epoch || planted::is(Bug::AnyToken));
    let Some(row) = held else {
        plan.recorded.push(None);
        return;
    };
    let event = (key.execution.tenant.clone(), row.event_id);
    let update = match &settlement.outcome {
        Settling::Succeeded { result, emit } => {
            plan.emitted.extend(emit.as_deref());
            ActionUpdate { result: Some(result), ..unexplained(ActionStatus::Succeeded) }
        }
        Settling::Retry { error, .. } if stored.cancelled.contains(&key.execution) => {
            ActionUpdate { error: Some(error), ..unexplained(ActionStatus::Cancelled) }
        }
        Settling::Retry { error, at } => {
            ActionUpdate { error: Some(error), due_at: Some(*at), ..unexplained(ActionStatus::Ready) }
        }
        Settling::Failed { error, then } => {
            match then {
                AfterFailure::Emit(emitted) => plan.emitted.push(emitted),
                AfterFailure::Pause { reason } => {
                    if stored.statuses.get(&event) == Some(&EventStatus::Processing) {
                        plan.events.insert(event.clone(), (EventStatus::Failed, Some(reason)));
                    }
                    plan.pauses.entry(&key.execution).or_insert(reason);
                }
            }
            let handling = then.handling();
            ActionUpdate { error: Some(error), handling, ..unexplained(ActionStatus::Failed) }
        }
    };
    row.status = update.status;
    plan.recorded.push(Some(event));
    plan.actions.insert(key.clone(), update);
}

/// Skip what needs something that failed, and what needs that in turn.
fn skip_dependents(group: &mut Group) -> Vec<Name> {
    let mut skipped = Vec::new();
    loop {
        let lost = waiting_where(group, |needs| {
            needs.iter().any(|need| matches!(need, ActionStatus::Failed | ActionStatus::Skipped))
        });
        if lost.is_empty() {
            return skipped;
        }
        for action in lost {
            set_status(group, &action, ActionStatus::Skipped);
            skipped.push(action);
        }
    }
}

/// Free what waited for successes that are all there, in the order of the `do` list.
fn free_dependents(group: &mut Group) -> Vec<(Name, Vec<Name>)> {
    let mut freed = waiting_where(group, |needs| needs.iter().all(|need| *need == ActionStatus::Succeeded));
    freed.sort_by_key(|action| group.get(action).map(|row| row.ordinal));
    for action in &freed {
        set_status(group, action, ActionStatus::Ready);
    }
    freed
        .into_iter()
        .map(|action| {
            let needs = group.get(&action).map(|row| row.needs.clone()).unwrap_or_default();
            (action, needs)
        })
        .collect()
}

fn set_status(group: &mut Group, action: &Name, status: ActionStatus) {
    if let Some(row) = group.get_mut(action) {
        row.status = status;
    }
}

fn waiting_where(group: &Group, holds: impl Fn(&[ActionStatus]) -> bool) -> Vec<Name> {
    let waits = |row: &ActionRow| {
        let needs: Vec<_> = row.needs.iter().filter_map(|need| Some(group.get(need)?.status)).collect();
        row.status == ActionStatus::Waiting && holds(&needs)
    };
    group.iter().filter(|(_, row)| waits(row)).map(|(action, _)| action.clone()).collect()
}

/// An event that is being processed is complete when none of its actions is open.
fn complete(
    execution: &ExecutionKey,
    group: &Group,
    statuses: &BTreeMap<(TenantId, EventId), EventStatus>,
    plan: &mut SettlePlan<'_>,
) {
    let Some(row) = group.values().next() else { return };
    let event = (execution.tenant.clone(), row.event_id);
    let processing = statuses.get(&event) == Some(&EventStatus::Processing);
    if processing && !plan.events.contains_key(&event) && group.values().all(|row| row.status.is_settled()) {
        plan.events.insert(event, (EventStatus::Completed, None));
    }
}
