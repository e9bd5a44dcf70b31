//! What people (and the poison rule) decide about work that is stuck. Every decision is recorded
//! with who and why.

use millstream_core::id::{EventId, ExecutionKey, TenantId};
use millstream_core::incident::NewIncident;
use millstream_core::time::Timestamp;

use crate::Result;

#[async_trait::async_trait]
pub trait Interventions: Send + Sync {
    /// Put undecidable events aside: each becomes `dead` with its error and its execution is paused
    /// for that reason (if it is active and not paused already), unless the event has been decided
    /// meanwhile. Recorded as `bury`, with the error as the reason.
    async fn bury(&self, burials: &[Burial], now: Timestamp) -> Result<()>;

    /// Pause executions whose stored state cannot be decoded or whose definition is unusable, ended
    /// ones included. Recorded as `pause`. One that is paused already keeps its reason and gets no
    /// second record; one that does not exist is passed over. An incident is opened, of the event that
    /// waits first (or the last one), unless the execution has an open one.
    async fn pause(&self, pauses: &[Pausing], now: Timestamp) -> Result<()>;

    /// Try a `dead` event again (undecided, attempts 0) or the failed actions of a `failed` event
    /// (those whose failure no event has handled: ready, due at once, attempts 0, the epoch kept; what
    /// was skipped because of them, and of nothing else, waiting again; the event `processing`; see
    /// [`reopening`](crate::reopening)), and resume the execution if no other event of it is dead or
    /// failed. The event keeps its place in the order. Open incidents of the event are resolved. Recorded
    /// as `retry`.
    async fn retry(
        &self,
        tenant: &TenantId,
        event: EventId,
        by: &Decision,
        now: Timestamp,
    ) -> Result<Retried>;

    /// What was decided about an execution, oldest first.
    async fn decisions(&self, execution: &ExecutionKey) -> Result<Vec<RecordedDecision>>;
}

#[derive(Debug, Clone)]
pub struct Burial {
    pub execution: ExecutionKey,
    pub event_id: EventId,
    pub error: String,
    /// Opened with it; it has no action.
    pub incident: NewIncident,
}

/// An execution that cannot go on, and why.
#[derive(Debug, Clone)]
pub struct Pausing {
    pub execution: ExecutionKey,
    /// Its reason is that of the pause.
    pub incident: NewIncident,
}

/// Who decides, and why.
#[derive(Debug, Clone)]
pub struct Decision {
    pub actor: Option<String>,
    pub reason: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Retried {
    /// Ring this execution.
    Accepted {
        execution: ExecutionKey,
    },
    /// The event is neither dead nor failed.
    NotApplicable {
        status: millstream_core::status::EventStatus,
    },
    NotFound,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedDecision {
    pub event_id: Option<EventId>,
    /// `bury`, `pause`, `retry`, or the word of a [`Resolution`](millstream_core::status::Resolution).
    pub kind: String,
    pub actor: Option<String>,
    pub reason: Option<String>,
    pub at: Timestamp,
}
