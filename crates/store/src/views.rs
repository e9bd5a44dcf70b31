//! Views: reads for people and clients. Off the hot path, read-only.

use millstream_model::action_queue::ActionQueue;
use millstream_model::id::{
    AcceptNo, ActionKey, DefinitionRef, Epoch, EventId, ExecutionKey, Name, Seq, TenantId, WorkerId,
};
use millstream_model::raw::RawJson;
use millstream_model::status::{ActionStatus, EventStatus, ExecutionStatus};
use millstream_model::time::Timestamp;
use millstream_workflow::log::{ExecutionState, Transition};

use crate::StoreResult;
use crate::action_store::ActionAttempt;
use crate::execution_store::PageRemainder;

#[async_trait::async_trait]
pub trait ExecutionViews: Send + Sync {
    /// In the order asked; `None` where there is none.
    async fn find_executions(&self, keys: &[ExecutionKey]) -> StoreResult<Vec<Option<ExecutionView>>>;

    /// Newest first (by creation position), beginning after the position `after` (at smaller ones). An
    /// execution whose state cannot be decoded is listed with the columns of its row
    /// ([`ExecutionView::unreadable`]); it does not hide the others.
    async fn list_executions(
        &self,
        tenant: &TenantId,
        filter: &ExecutionFilter,
        after: Option<AcceptNo>,
        limit: usize,
    ) -> StoreResult<Vec<ExecutionView>>;

    /// Transitions with `seq > after`, in order, with the payloads that caused them: at most `limit`, and
    /// within [`HISTORY_PAGE_BYTES`](crate::paging::HISTORY_PAGE_BYTES), but at least one while there is one.
    async fn read_history(
        &self,
        execution: &ExecutionKey,
        after: Seq,
        limit: usize,
    ) -> StoreResult<HistoryPage>;

    /// By seq and place in the `do` list, beginning after `after`.
    async fn list_actions(
        &self,
        execution: &ExecutionKey,
        after: Option<ActionPlace>,
        limit: usize,
    ) -> StoreResult<Vec<ActionRecord>>;

    /// Armed and not yet fired, the next one first, beginning after `after`.
    async fn list_timers(
        &self,
        execution: &ExecutionKey,
        after: Option<TimerPlace>,
        limit: usize,
    ) -> StoreResult<Vec<TimerView>>;
}

#[async_trait::async_trait]
pub trait EventViews: Send + Sync {
    /// In the order asked; `None` where there is none (or it belongs to another tenant).
    async fn find_events(&self, keys: &[(TenantId, EventId)]) -> StoreResult<Vec<Option<EventView>>>;

    /// In acceptance order, after the position `after`.
    async fn list_events(
        &self,
        tenant: &TenantId,
        filter: &EventFilter,
        after: Option<AcceptNo>,
        limit: usize,
    ) -> StoreResult<Vec<EventView>>;

    /// For operators: number and age of undecided events, over all tenants.
    async fn count_backlog(&self) -> StoreResult<EventBacklog>;
}

#[derive(Debug, Clone)]
pub struct ExecutionView {
    pub execution: ExecutionKey,
    /// The accept_no of its start event: the position in lists.
    pub position: AcceptNo,
    pub definition: DefinitionRef,
    pub status: ExecutionStatus,
    /// The state from the newest snapshot and the transitions after it.
    pub state: ExecutionState,
    pub paused_reason: Option<String>,
    /// Why the state cannot be decoded; `state` then has no context, only the columns of the row.
    pub unreadable: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

#[derive(Debug, Clone, Default)]
pub struct ExecutionFilter {
    pub definition: Option<Name>,
    pub state: Option<Name>,
    pub status: Option<ExecutionStatus>,
}

/// A part of an execution's history.
#[derive(Debug, Clone)]
pub struct HistoryPage {
    pub entries: Vec<HistoryEntry>,
    /// Whether there are entries behind the last one.
    pub more: PageRemainder,
}

#[derive(Debug, Clone)]
pub struct HistoryEntry {
    pub transition: Transition,
    pub payload: RawJson,
    /// When the event was accepted.
    pub accepted_at: Timestamp,
    pub origin: millstream_workflow::log::EventOrigin,
}

#[derive(Debug, Clone)]
pub struct EventView {
    pub event_id: EventId,
    pub execution: ExecutionKey,
    pub accept_no: AcceptNo,
    pub name: Name,
    pub payload: RawJson,
    pub status: EventStatus,
    pub from_state: Option<Name>,
    pub to_state: Option<Name>,
    pub seq: Option<Seq>,
    pub attempts: i32,
    /// Why it was rejected, failed or buried.
    pub error: Option<String>,
    pub actor: Option<String>,
    pub worker_id: Option<WorkerId>,
    pub created_at: Timestamp,
    /// When its transition was committed.
    pub started_at: Option<Timestamp>,
    /// When it became final.
    pub completed_at: Option<Timestamp>,
}

#[derive(Debug, Clone, Default)]
pub struct EventFilter {
    pub execution: Option<millstream_model::id::ExecutionId>,
    pub status: Option<EventStatus>,
}

#[derive(Debug, Clone)]
pub struct ActionRecord {
    pub key: ActionKey,
    pub event_id: EventId,
    pub ordinal: i32,
    pub needs: Vec<Name>,
    pub status: ActionStatus,
    pub attempts: i32,
    pub epoch: Epoch,
    pub worker_id: Option<WorkerId>,
    pub lease_until: Option<Timestamp>,
    pub next_attempt_at: Option<Timestamp>,
    pub input: Option<RawJson>,
    pub result: Option<RawJson>,
    pub error: Option<RawJson>,
    pub created_at: Timestamp,
    pub settled_at: Option<Timestamp>,
    pub queue: ActionQueue,
    pub revision: i32,
    pub progress: Option<RawJson>,
    /// When it became ready.
    pub ready_at: Option<Timestamp>,
}

impl ActionRecord {
    /// The attempt under way, of an action that waits for an outcome from outside.
    pub fn as_attempt(&self) -> ActionAttempt<'_> {
        ActionAttempt {
            key: &self.key,
            revision: self.revision,
            attempts: self.attempts,
            ready_at: Some(self.ready_at.unwrap_or(self.created_at)),
            traceparent: None,
        }
    }

    pub const fn place(&self) -> ActionPlace {
        ActionPlace { seq: self.key.seq, ordinal: self.ordinal }
    }
}

/// Position of an action in the list of its execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ActionPlace {
    pub seq: Seq,
    pub ordinal: i32,
}

#[derive(Debug, Clone)]
pub struct TimerView {
    pub armed_seq: Seq,
    pub ordinal: i32,
    pub send: Name,
    pub fire_at: Timestamp,
}

impl TimerView {
    pub const fn place(&self) -> TimerPlace {
        TimerPlace { fire_at: self.fire_at, armed_seq: self.armed_seq, ordinal: self.ordinal }
    }
}

/// Position of a timer in the list of its execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimerPlace {
    pub fire_at: Timestamp,
    pub armed_seq: Seq,
    pub ordinal: i32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EventBacklog {
    /// Events that are `pending`; deferred ones wait by design.
    pub undecided: u64,
    /// When the oldest of them was accepted.
    pub oldest: Option<Timestamp>,
    /// Events.
    pub dead: u64,
    /// Executions whose status is `paused`.
    pub paused: u64,
    /// Unresolved incidents.
    pub incidents: u64,
    /// Actions that are waiting, ready or leased.
    pub open_actions: u64,
}
