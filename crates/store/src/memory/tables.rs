//! The tables, and the few writes that several use cases share.

use std::collections::{BTreeMap, BTreeSet};

use millstream_devices::claim::DeviceReport;
use millstream_model::id::{
    AcceptNo, DefinitionRef, DeviceKey, EventId, ExecutionKey, Name, RunKey, Seq, TenantId, WorkerId,
};
use millstream_model::quota::QuotaSet;
use millstream_model::raw::RawJson;
use millstream_model::status::{EventStatus, ExecutionPhase, PauseState};
use millstream_model::time::Timestamp;
use millstream_workflow::lease_policy::LeasePolicy;
use millstream_workflow::log::{
    ArmedTimer, EventOrigin, ExecutionState, MailboxEvent, MailboxState, Transition,
};

use super::graphs::{FeedRow, GraphTable};
use super::notices::NoticeRow;
use super::outbox::OutboxRow;
use super::people::PeopleTables;
use crate::action_store::{FailureHandling, LeaseOrigin, OutcomeDemand};
use crate::definition_store::StoredDefinition;
use crate::event_log::{EventSubmission, SignalSubmission};
use crate::execution_store::ActionRelation;
use crate::executor_store::RegisteredExecutor;
use crate::incidents::IncidentView;
use crate::intervention::RecordedDecision;
use crate::key_store::KeyView;
use crate::run_store::{RunEntry, StoredRun};
use crate::task_board::ExternalWorkerView;
use crate::views::{ActionRecord, EventView};
use crate::worker_store::WorkerRecord;

#[derive(Debug, Default)]
pub(super) struct MemoryTables {
    last_accept_no: i64,
    pub(super) executions: BTreeMap<ExecutionKey, MemoryExecution>,
    /// Index from event ids to executions.
    pub(super) event_index: BTreeMap<(TenantId, EventId), (ExecutionKey, AcceptNo)>,
    pub(super) idempotency: BTreeMap<(TenantId, String), KeyUse>,
    pub(super) definitions: BTreeMap<(TenantId, Name), Vec<StoredDefinition>>,
    pub(super) api_keys: Vec<KeyView>,
    pub(super) workers: BTreeMap<WorkerId, WorkerRecord>,
    pub(super) duties: BTreeMap<String, MemoryDuty>,
    pub(super) incidents: Vec<IncidentView>,
    /// Buffered signals, in the order of their acceptance.
    pub(super) signals: Vec<(SignalSubmission, Timestamp)>,
    pub(super) external: BTreeMap<(TenantId, String), ExternalWorkerView>,
    /// Of the feed and of logs.
    pub(super) last_position: i64,
    pub(super) last_log: i64,
    pub(super) feed: Vec<FeedRow>,
    pub(super) outbox: BTreeMap<(Name, ExecutionKey), OutboxRow>,
    pub(super) executors: BTreeMap<(TenantId, Name), (RegisteredExecutor, Timestamp)>,
    pub(super) devices: BTreeMap<DeviceKey, DeviceReport>,
    pub(super) runs: BTreeMap<RunKey, StoredRun>,
    pub(super) last_run: i64,
    /// Entries with their runs, in order.
    pub(super) run_log: Vec<(RunKey, RunEntry)>,
    pub(super) people: PeopleTables,
    pub(super) quotas: BTreeMap<TenantId, QuotaSet>,
    /// Counts changes of quotas.
    pub(super) quota_revision: i64,
    pub(super) last_notice: i64,
    pub(super) notices: Vec<NoticeRow>,
}

/// An execution with everything that belongs to it.
#[derive(Debug)]
pub(super) struct MemoryExecution {
    pub(super) definition: DefinitionRef,
    pub(super) input_hash: [u8; 32],
    pub(super) position: AcceptNo,
    pub(super) seq: Seq,
    pub(super) phase: ExecutionPhase,
    pub(super) paused: Option<String>,
    pub(super) snapshot: ExecutionState,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
    pub(super) transitions: Vec<Transition>,
    pub(super) events: BTreeMap<AcceptNo, MemoryEvent>,
    pub(super) actions: BTreeMap<(Seq, Name), MemoryAction>,
    pub(super) timers: BTreeMap<(Seq, i32), ArmedTimer>,
    pub(super) decisions: Vec<RecordedDecision>,
    pub(super) correlation: Option<String>,
    pub(super) graph: Option<GraphTable>,
}

#[derive(Debug)]
pub(super) struct MemoryEvent {
    pub(super) view: EventView,
    pub(super) origin: EventOrigin,
    pub(super) traceparent: Option<String>,
}

#[derive(Debug)]
pub(super) struct MemoryAction {
    pub(super) view: ActionRecord,
    pub(super) scope: Option<RawJson>,
    /// Of one that failed.
    pub(super) handling: FailureHandling,
    pub(super) terms: LeasePolicy,
    pub(super) undoes: Option<Name>,
    /// It failed, and waits for the compensation of its transition.
    pub(super) closing: bool,
    pub(super) begun: LeaseOrigin,
    /// Deadline of the attempt that is under way.
    pub(super) attempt_until: Option<Timestamp>,
    pub(super) company: ActionRelation,
}

#[derive(Debug)]
pub(super) struct KeyUse {
    pub(super) request_hash: [u8; 32],
    pub(super) event_id: EventId,
    pub(super) created_at: Timestamp,
}

#[derive(Debug)]
pub(super) struct MemoryDuty {
    pub(super) turn: Option<(WorkerId, Timestamp)>,
    pub(super) done_at: Timestamp,
}

impl MemoryTables {
    /// Append an undecided event to an existing execution.
    pub(super) fn insert_event(&mut self, event: &EventSubmission, now: Timestamp) -> AcceptNo {
        self.last_accept_no += 1;
        let accept_no = AcceptNo(self.last_accept_no);
        if let Some(execution) = self.executions.get_mut(&event.execution) {
            execution.events.insert(accept_no, MemoryEvent::undecided(event, accept_no, now));
            let id = (event.execution.tenant.clone(), event.event_id);
            self.event_index.insert(id, (event.execution.clone(), accept_no));
        }
        accept_no
    }

    pub(super) fn find_event(&self, tenant: &TenantId, event: EventId) -> Option<&MemoryEvent> {
        let (execution, accept_no) = self.event_index.get(&(tenant.clone(), event))?;
        self.executions.get(execution)?.events.get(accept_no)
    }

    /// An execution and its event.
    pub(super) fn event_of(
        &mut self,
        execution: &ExecutionKey,
        event: EventId,
    ) -> Option<(&mut MemoryExecution, AcceptNo)> {
        let (found, accept_no) = self.event_index.get(&(execution.tenant.clone(), event))?;
        if found != execution {
            return None;
        }
        Some((self.executions.get_mut(execution)?, *accept_no))
    }
}

impl MemoryExecution {
    pub(super) fn pause_state(&self) -> PauseState {
        match self.paused {
            Some(_) => PauseState::Paused,
            None => PauseState::Running,
        }
    }

    /// Whether the outcomes of its actions are wanted.
    pub(super) fn outcome_demand(&self) -> OutcomeDemand {
        OutcomeDemand::of_execution(
            self.phase,
            &self.definition.name,
            self.transitions.last().map(|last| &last.name),
        )
    }

    /// Undecided events that a worker may decide now, in order.
    pub(super) fn decidable_events(&self) -> impl Iterator<Item = &MemoryEvent> {
        let pause = self.pause_state();
        self.events.values().filter(move |event| event.is_decidable(pause))
    }

    pub(super) fn event_by_id(&mut self, event: EventId) -> Option<&mut MemoryEvent> {
        self.events.values_mut().find(|row| row.view.event_id == event)
    }

    /// Pause a running execution; the first pause sets the reason.
    pub(super) fn pause_with_reason(&mut self, reason: &str, now: Timestamp) {
        if self.paused.is_none() {
            self.paused = Some(reason.to_owned());
            self.updated_at = now;
        }
    }

    /// Complete events that were being processed and have no open action left.
    pub(super) fn complete_settled_events(&mut self, now: Timestamp) {
        let open = self.actions.values().filter(|action| !action.view.status.is_settled());
        let open: BTreeSet<EventId> = open.map(|action| action.view.event_id).collect();
        for event in self.events.values_mut().filter(|row| row.view.status == EventStatus::Processing) {
            if !open.contains(&event.view.event_id) {
                event.view.status = EventStatus::Completed;
                event.view.completed_at = Some(now);
            }
        }
    }
}

impl MemoryEvent {
    fn undecided(event: &EventSubmission, accept_no: AcceptNo, now: Timestamp) -> Self {
        let view = EventView {
            event_id: event.event_id,
            execution: event.execution.clone(),
            accept_no,
            name: event.name.clone(),
            payload: event.payload.clone(),
            status: EventStatus::Pending,
            from_state: None,
            to_state: None,
            seq: None,
            attempts: 0,
            error: None,
            actor: event.actor.clone(),
            worker_id: None,
            created_at: now,
            started_at: None,
            completed_at: None,
        };
        Self { view, origin: event.origin, traceparent: event.traceparent.clone() }
    }

    fn is_decidable(&self, pause: PauseState) -> bool {
        self.view.status == EventStatus::Pending
            && match pause {
                PauseState::Running => true,
                PauseState::Paused => self.view.name.is_end(),
            }
    }

    /// Whether it may still be decided: it is undecided or deferred.
    pub(super) fn mailbox_state(&self) -> Option<MailboxState> {
        match self.view.status {
            EventStatus::Pending => Some(MailboxState::Undecided),
            EventStatus::Deferred => Some(MailboxState::Deferred),
            EventStatus::Processing
            | EventStatus::Completed
            | EventStatus::Rejected
            | EventStatus::Failed
            | EventStatus::Dead => None,
        }
    }

    pub(super) fn as_waiting(&self, kept: MailboxState) -> MailboxEvent {
        MailboxEvent {
            event_id: self.view.event_id,
            accept_no: self.view.accept_no,
            name: self.view.name.clone(),
            payload: self.view.payload.clone(),
            accepted_at: self.view.created_at,
            origin: self.origin,
            kept,
            attempts: self.view.attempts,
            traceparent: self.traceparent.clone(),
        }
    }
}
