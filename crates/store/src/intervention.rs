//! Interventions: decisions of people (and of the poison rule) about stuck work. Every decision is recorded
//! with its actor and reason.

use millstream_model::id::{EventId, ExecutionKey, TenantId};
use millstream_model::incident::NewIncident;
use millstream_model::time::Timestamp;

use crate::StoreResult;

#[async_trait::async_trait]
pub trait Interventions: Send + Sync {
    /// Bury undecidable events (dead letter): each becomes `dead` with its error and its execution is paused
    /// for that reason (if it is active and not paused already), unless the event has been decided meanwhile.
    /// Recorded as `bury`, with the error as the reason.
    async fn bury_events(&self, burials: &[EventBurial], now: Timestamp) -> StoreResult<()>;

    /// Pause executions whose stored state cannot be decoded or whose definition is unusable, ended ones
    /// included. Recorded as `pause`. An execution that is paused already keeps its reason and gets no second
    /// record; an unknown one is ignored. An incident is opened for the first waiting event (or the last
    /// one), unless the execution has an open one.
    async fn pause_executions(&self, pauses: &[ExecutionPause], now: Timestamp) -> StoreResult<()>;

    /// Try a `dead` event again (undecided, attempts 0) or the failed actions of a `failed` event (those
    /// whose failure no event has handled: ready, due at once, attempts 0, the epoch kept; actions skipped
    /// only because of them waiting again; the event `processing`; see [`reopening`](crate::reopening)), and
    /// resume the execution if it has no other dead or failed event. The event keeps its place in the order.
    /// Open incidents of the event are resolved. Recorded as `retry`.
    async fn retry_event(
        &self,
        tenant: &TenantId,
        event: EventId,
        by: &DecisionRecord,
        now: Timestamp,
    ) -> StoreResult<RetryVerdict>;

    /// Recorded decisions about an execution, oldest first.
    async fn list_decisions(&self, execution: &ExecutionKey) -> StoreResult<Vec<RecordedDecision>>;
}

#[derive(Debug, Clone)]
pub struct EventBurial {
    pub execution: ExecutionKey,
    pub event_id: EventId,
    pub error: String,
    /// Opened with it; it has no action.
    pub incident: NewIncident,
}

/// An execution that has to be paused, and why.
#[derive(Debug, Clone)]
pub struct ExecutionPause {
    pub execution: ExecutionKey,
    /// Its reason is that of the pause.
    pub incident: NewIncident,
}

/// The actor of a decision, and the reason.
#[derive(Debug, Clone)]
pub struct DecisionRecord {
    pub actor: Option<String>,
    pub reason: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RetryVerdict {
    /// Ring the doorbell of this execution.
    Accepted {
        execution: ExecutionKey,
    },
    /// The event is neither dead nor failed.
    NotApplicable {
        status: millstream_model::status::EventStatus,
    },
    NotFound,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedDecision {
    pub event_id: Option<EventId>,
    /// `bury`, `pause_executions`, `retry_event`, or the word of a [`Resolution`](millstream_model::status::IncidentResolution).
    pub kind: String,
    pub actor: Option<String>,
    pub reason: Option<String>,
    pub at: Timestamp,
}
