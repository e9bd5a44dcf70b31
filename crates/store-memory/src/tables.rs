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
use millstream_store::action_store::{FailureHandling, LeaseOrigin, OutcomeDemand};
use millstream_store::definition_store::StoredDefinition;
use millstream_store::event_log::{EventSubmission, SignalSubmission};
use millstream_store::execution_store::ActionRelation;
use millstream_store::executor_store::RegisteredExecutor;
use millstream_store::incidents::IncidentView;
use millstream_store::intervention::RecordedDecision;
use millstream_store::key_store::KeyView;
use millstream_store::run_store::{RunEntry, StoredRun};
use millstream_store::task_board::ExternalWorkerView;
use millstream_store::views::{ActionRecord, EventView};
use millstream_store::worker_store::WorkerRecord;
use millstream_workflow::lease_policy::LeasePolicy;
use millstream_workflow::log::{
    ArmedTimer, EventOrigin, ExecutionState, MailboxEvent, MailboxState, Transition,
};

use crate::graphs::{FeedRow, GraphTable};
use crate::outbound_rows::{NoticeRow, OutboxRow};
use crate::people::PeopleTables;

#[derive(Debug, Default)]
pub(crate) struct MemoryTables {
    last_accept_no: i64,
    pub(crate) executions: BTreeMap<ExecutionKey, MemoryExecution>,
    /// Index from event ids to executions.
    pub(crate) event_index: BTreeMap<(TenantId, EventId), (ExecutionKey, AcceptNo)>,
    pub(crate) idempotency: BTreeMap<(TenantId, String), KeyUse>,
    pub(crate) definitions: BTreeMap<(TenantId, Name), Vec<StoredDefinition>>,
    pub(crate) api_keys: Vec<KeyView>,
    pub(crate) workers: BTreeMap<WorkerId, WorkerRecord>,
    pub(crate) duties: BTreeMap<String, MemoryDuty>,
    pub(crate) incidents: Vec<IncidentView>,
    /// Buffered signals, in the order of their acceptance.
    pub(crate) signals: Vec<(SignalSubmission, Timestamp)>,
    pub(crate) external: BTreeMap<(TenantId, String), ExternalWorkerView>,
    /// Of the feed and of logs.
    pub(crate) last_position: i64,
    pub(crate) last_log: i64,
    pub(crate) feed: Vec<FeedRow>,
    pub(crate) outbox: BTreeMap<(Name, ExecutionKey), OutboxRow>,
    pub(crate) executors: BTreeMap<(TenantId, Name), (RegisteredExecutor, Timestamp)>,
    pub(crate) devices: BTreeMap<DeviceKey, DeviceReport>,
    pub(crate) runs: BTreeMap<RunKey, StoredRun>,
    pub(crate) last_run: i64,
    /// Entries with their runs, in order.
    pub(crate) run_log: Vec<(RunKey, RunEntry)>,
    pub(crate) people: PeopleTables,
    pub(crate) quotas: BTreeMap<TenantId, QuotaSet>,
    /// Counts changes of quotas.
    pub(crate) quota_revision: i64,
    pub(crate) last_notice: i64,
    pub(crate) notices: Vec<NoticeRow>,
}

/// An execution with everything that belongs to it.
#[derive(Debug)]
pub(crate) struct MemoryExecution {
    pub(crate) definition: DefinitionRef,
    pub(crate) input_hash: [u8; 32],
    pub(crate) position: AcceptNo,
    pub(crate) seq: Seq,
    pub(crate) phase: ExecutionPhase,
    pub(crate) paused: Option<String>,
    pub(crate) snapshot: ExecutionState,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
    pub(crate) transitions: Vec<Transition>,
    pub(crate) events: BTreeMap<AcceptNo, MemoryEvent>,
    pub(crate) actions: BTreeMap<(Seq, Name), MemoryAction>,
    pub(crate) timers: BTreeMap<(Seq, i32), ArmedTimer>,
    pub(crate) decisions: Vec<RecordedDecision>,
    pub(crate) correlation: Option<String>,
    pub(crate) graph: Option<GraphTable>,
}

#[derive(Debug)]
pub(crate) struct MemoryEvent {
    pub(crate) view: EventView,
    pub(crate) origin: EventOrigin,
    pub(crate) traceparent: Option<String>,
}

#[derive(Debug)]
pub(crate) struct MemoryAction {
    pub(crate) view: ActionRecord,
    pub(crate) scope: Option<RawJson>,
    /// Of one that failed.
    pub(crate) handling: FailureHandling,
    pub(crate) terms: LeasePolicy,
    pub(crate) undoes: Option<Name>,
    /// It failed, and waits for the compensation of its transition.
    pub(crate) closing: bool,
    pub(crate) begun: LeaseOrigin,
    /// Deadline of the attempt that is under way.
    pub(crate) attempt_until: Option<Timestamp>,
    pub(crate) company: ActionRelation,
}

#[derive(Debug)]
pub(crate) struct KeyUse {
    pub(crate) request_hash: [u8; 32],
    pub(crate) event_id: EventId,
    pub(crate) created_at: Timestamp,
}

#[derive(Debug)]
pub(crate) struct MemoryDuty {
    pub(crate) turn: Option<(WorkerId, Timestamp)>,
    pub(crate) done_at: Timestamp,
}

impl MemoryTables {
    /// Append an undecided event to an existing execution.
    pub(crate) fn insert_event(&mut self, event: &EventSubmission, now: Timestamp) -> AcceptNo {
        self.last_accept_no += 1;
        let accept_no = AcceptNo(self.last_accept_no);
        if let Some(execution) = self.executions.get_mut(&event.execution) {
            execution.events.insert(accept_no, MemoryEvent::undecided(event, accept_no, now));
            let id = (event.execution.tenant.clone(), event.event_id);
            self.event_index.insert(id, (event.execution.clone(), accept_no));
        }
        accept_no
    }

    pub(crate) fn find_event(&self, tenant: &TenantId, event: EventId) -> Option<&MemoryEvent> {
        let (execution, accept_no) = self.event_index.get(&(tenant.clone(), event))?;
        self.executions.get(execution)?.events.get(accept_no)
    }

    /// An execution and its event.
    pub(crate) fn event_of(
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
    pub(crate) fn pause_state(&self) -> PauseState {
        match self.paused {
            Some(_) => PauseState::Paused,
            None => PauseState::Running,
        }
    }

    /// Whether the outcomes of its actions are wanted.
    pub(crate) fn outcome_demand(&self) -> OutcomeDemand {
        OutcomeDemand::of_execution(
            self.phase,
            &self.definition.name,
            self.transitions.last().map(|last| &last.name),
        )
    }

    /// Undecided events that a worker may decide now, in order.
    pub(crate) fn decidable_events(&self) -> impl Iterator<Item = &MemoryEvent> {
        let pause = self.pause_state();
        self.events.values().filter(move |event| event.is_decidable(pause))
    }

    pub(crate) fn event_by_id(&mut self, event: EventId) -> Option<&mut MemoryEvent> {
        self.events.values_mut().find(|row| row.view.event_id == event)
    }

    /// Pause a running execution; the first pause sets the reason.
    pub(crate) fn pause_with_reason(&mut self, reason: &str, now: Timestamp) {
        if self.paused.is_none() {
            self.paused = Some(reason.to_owned());
            self.updated_at = now;
        }
    }

    /// Complete events that were being processed and have no open action left.
    pub(crate) fn complete_settled_events(&mut self, now: Timestamp) {
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
    pub(crate) fn mailbox_state(&self) -> Option<MailboxState> {
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

    pub(crate) fn as_waiting(&self, kept: MailboxState) -> MailboxEvent {
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
