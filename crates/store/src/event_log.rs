//! Accepting: makes events durable.
//!
//! `append` is the moment of acceptance. Everything in the batch commits together (group commit); a client
//! gets its answer only after `append` has returned. Order of acceptance is one database sequence, in the
//! order of the batch.

use millstream_model::id::{AcceptNo, DefinitionRef, EventId, ExecutionKey, Name, TenantId};
use millstream_model::overdue_sweep::SweepBand;
use millstream_model::raw::RawJson;
use millstream_model::status::EventStatus;
use millstream_model::time::Timestamp;
pub use millstream_workflow::event_submission::{EventSubmission, IdempotencyKey};
use millstream_workflow::log::{AppliedEvent, EventOrigin, ExecutionState};

use crate::StoreResult;
use crate::graph_store::GraphRows;

/// Appends events, starts and signals.
#[async_trait::async_trait]
pub trait EventLog: Send + Sync {
    /// Append a batch in one transaction, one verdict per item, in order.
    ///
    /// Durable when it returns. An item that is refused (no such execution, a key reused with other content,
    /// an id taken by another input) leaves no trace and consumes no key, not even for a later item of the
    /// same batch; the others are appended. `accept_no` grows in the order of the batch.
    ///
    /// Items see the writes of earlier items of the batch: an event may go to an execution that an earlier
    /// item starts (one that a *later* item starts may be accepted or refused). Two items with the same
    /// idempotency key: the first is appended, the second is a repeat of it, or a mismatch when its hash
    /// differs. Two starts of one id: likewise.
    ///
    /// When the call fails the outcome is in doubt: repeat it with the same event ids; an event id that
    /// exists is not appended twice but reported as [`Appended::Repeat`]. The key is checked before the
    /// execution: a repeat of a key whose execution retention has removed is a repeat.
    ///
    /// An execution that starts with a correlation finds the buffered signals for it in its mailbox, in the
    /// order of their acceptance, behind the `events` that it starts with. A signal and a start that are
    /// appended concurrently find each other: both take the same lock.
    async fn append(&self, batch: &[AppendRequest], now: Timestamp) -> StoreResult<Vec<Appended>>;

    /// Look up idempotency keys, in the order asked: [`Appended::Repeat`] as `append` would return it,
    /// [`Appended::Mismatch`] when the hash differs, `None` for an unknown key. A caller whose own checks
    /// refuse a request uses this to give a request that was accepted before its old answer.
    async fn find_accepted(&self, keys: &[(TenantId, IdempotencyKey)]) -> StoreResult<Vec<Option<Appended>>>;

    /// The definition of each execution, `None` where there is no such execution. It never changes
    /// during an execution's life, so callers may cache it.
    async fn find_definitions(&self, executions: &[ExecutionKey]) -> StoreResult<Vec<Option<DefinitionRef>>>;

    /// One page of executions whose doorbells are to be rung again: those with an undecided event that a
    /// worker may decide now, which is any event while the execution is not paused and only
    /// `millstream.cancel` while it is. Deferred events do not count. With `bands`, only events accepted
    /// within one of them; without, all. Each execution once, in a stable order that the backend chooses,
    /// continuing after `after`.
    async fn page_undecided(
        &self,
        bands: Option<&[SweepBand]>,
        after: Option<&ExecutionKey>,
        limit: usize,
    ) -> StoreResult<Vec<ExecutionKey>>;

    /// Which of these executions still have something for a worker to decide (an undecided event
    /// while not paused, or an undecided `millstream.cancel`), in the order asked; `false` where there
    /// is no such execution. Used to ack doorbells whose work is already done.
    async fn has_work(&self, executions: &[ExecutionKey]) -> StoreResult<Vec<bool>>;
}

/// One thing to accept.
#[derive(Debug, Clone)]
pub enum AppendRequest {
    Start(Box<ExecutionStart>),
    Event(EventSubmission),
    Signal(Box<SignalSubmission>),
}

/// An event addressed by correlation.
///
/// The only unfinished execution with the correlation gets it as an event. Without such an execution the
/// signal is buffered until there is one or until it expires; with several, it is refused.
#[derive(Debug, Clone)]
pub struct SignalSubmission {
    /// Of the signal, and of the event that it becomes.
    pub event_id: EventId,
    pub tenant: TenantId,
    pub correlation: String,
    /// Only executions of this definition.
    pub definition: Option<Name>,
    pub name: Name,
    pub payload: RawJson,
    pub idempotency: Option<IdempotencyKey>,
    pub actor: Option<String>,
    pub traceparent: Option<String>,
    /// From this time on it is no longer delivered.
    pub expires_at: Timestamp,
}

impl SignalSubmission {
    /// The event that it becomes. The key belongs to the signal and is used up with it.
    pub fn as_event(&self, execution: &ExecutionKey) -> EventSubmission {
        EventSubmission {
            event_id: self.event_id,
            execution: execution.clone(),
            name: self.name.clone(),
            payload: self.payload.clone(),
            origin: EventOrigin::Posted,
            idempotency: None,
            actor: self.actor.clone(),
            traceparent: self.traceparent.clone(),
        }
    }

    /// Whether an execution of this definition may receive it.
    pub fn fits_definition(&self, definition: &Name) -> bool {
        self.definition.as_ref().is_none_or(|wanted| wanted == definition)
    }
}

/// An execution to create, already decided: seq 1 is part of it. Its start event is `completed` from the
/// beginning, with seq 1, and the execution and that event date from the transition's own time.
///
/// The execution's id is an idempotency key in itself. The `idempotency` of `start`, if there is one, is a
/// key like that of an event, checked first: it outlives the execution. That of `events` is ignored.
#[derive(Debug, Clone)]
pub struct ExecutionStart {
    pub key: ExecutionKey,
    pub definition: DefinitionRef,
    /// Over definition name, requested version, input and events: what makes a repeat a repeat.
    pub input_hash: [u8; 32],
    /// The `millstream.start` event, its payload being the input.
    pub start: EventSubmission,
    /// Seq 1. It has no actions. The timers of its decision are armed.
    pub applied: AppliedEvent,
    pub state: ExecutionState,
    /// Appended in the same commit, unless the execution existed before.
    pub events: Vec<EventSubmission>,
    /// Of a graph: its rows, with metadata and blob; and an entry in the feed.
    pub graph: Option<Box<GraphRows>>,
}

/// The verdict on one [`AppendRequest`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Appended {
    /// New. For a start: the accept_no of its start event.
    Accepted {
        accept_no: AcceptNo,
    },
    /// Seen before with the same content; nothing was written. `event_id` is the first one (for a
    /// start: its start event), with its status now; `completed` where retention has removed it.
    Repeat {
        event_id: EventId,
        status: EventStatus,
    },
    /// A signal that found its execution: ring the doorbell of this execution.
    Delivered {
        execution: ExecutionKey,
        accept_no: AcceptNo,
    },
    /// A signal without an execution yet.
    Buffered,
    /// A signal that matches this many executions.
    Ambiguous {
        executions: usize,
    },
    /// The idempotency key, or the execution id, is in use with other content.
    Mismatch,
    NoExecution,
}
