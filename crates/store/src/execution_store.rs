//! Deciding: load what a step needs, commit its decisions.
//!
//! Fencing by optimistic concurrency. A commit names the `seq` that its decisions were based on and the
//! events that it decides; if the execution has moved on or was paused meanwhile, or one of those events is
//! decided already, nothing of it is written. (A rejection leaves the `seq` as it is: the `seq` alone would
//! let a second worker apply what a first one has rejected.) When two workers decide one execution
//! concurrently, one of them fails this precondition and loads again.

use std::sync::Arc;

use millstream_model::id::{AcceptNo, ActionKey, DefinitionRef, EventId, ExecutionKey, Name, Seq, WorkerId};
use millstream_model::incident::NewIncident;
use millstream_model::raw::RawJson;
use millstream_model::status::{ActionStatus, EventStatus, PauseState};
use millstream_model::time::Timestamp;
use millstream_workflow::lease_policy::LeasePolicy;
use millstream_workflow::log::{ArmedTimer, ExecutionState, MailboxEvent, Transition};

use crate::StoreResult;
use crate::action_store::{FailureHandling, LeasedAction};
use crate::event_log::EventSubmission;
use crate::graph_store::GraphRows;
pub use crate::lease_grant::LeaseGrant;

/// The worker's side of executions.
#[async_trait::async_trait]
pub trait ExecutionStore: Send + Sync {
    /// State and mailbox of each execution, in one consistent read per execution, in the order asked.
    ///
    /// The mailbox holds the undecided events (the first ones, cut by `limits`, at least one) and all
    /// deferred ones, which the limits do not count; together in acceptance order. While the execution is
    /// paused, the only undecided events in it are those that end an execution by request
    /// (`millstream.cancel`, `millstream.fail`), so that these are found behind any backlog. A caller that
    /// knows the state gets a snapshot only when the execution has moved on, or is another one by the same
    /// id.
    async fn load_executions(
        &self,
        wanted: &[LoadRequest],
        limits: MailboxLimits,
    ) -> StoreResult<Vec<LoadVerdict>>;

    /// Commit a batch in one transaction, one verdict per execution, in order; each execution occurs once.
    /// The commit is durable when it returns, and from then on the store alone knows the remaining work.
    ///
    /// An execution is committed when it is at `expected`, when every event of `decided` belongs to it and is
    /// still undecided or deferred (whatever the new verdict), and when it is not paused. While it is paused
    /// it takes only its end by request ([`OpenActions::Cancel`]), not any commit that happens to end it;
    /// once it has ended, a pause blocks no verdict. Otherwise the answer is [`CommitVerdict::Conflict`].
    ///
    /// `Ready` actions are leased to `worker` within this commit (epoch 1, attempt 1), in the order of the
    /// batch and of each commit's `actions`, if their queue is among those of `lease`, until its slots are
    /// used up; the rest stay unleased and due at once. A conflict uses up no slot.
    ///
    /// A correlation that a transition sets belongs to the execution from this commit on, and buffered
    /// signals for it become events of the execution, in the order of their acceptance.
    ///
    /// A verdict of `failed` pauses the execution from this commit on, for the reason in `error`, unless the
    /// commit ends it. A commit that ends an execution lifts its pause, so that the events left in the
    /// mailbox can be rejected, and resolves its open incidents as `ended`.
    async fn commit_executions(
        &self,
        worker: &WorkerId,
        batch: &[ExecutionCommit],
        lease: &LeaseGrant,
        now: Timestamp,
    ) -> StoreResult<Vec<CommitVerdict>>;

    /// Count one attempt on each event that is still undecided or deferred, and return the new number (0 when
    /// it is neither any more). Called when a crash or an error interrupted the decision.
    async fn count_attempts(&self, events: &[(ExecutionKey, EventId)]) -> StoreResult<Vec<i32>>;
}

/// An execution to load and the state that the caller has cached.
#[derive(Debug, Clone)]
pub struct LoadRequest {
    pub execution: ExecutionKey,
    /// The state that the caller has.
    pub known: Option<CachedVersion>,
}

/// Version of a cached state. An id is free again once retention has removed its execution, so the seq alone
/// does not identify the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CachedVersion {
    pub position: AcceptNo,
    pub seq: Seq,
}

/// How much of a mailbox one visit takes.
#[derive(Debug, Clone, Copy)]
pub struct MailboxLimits {
    pub events: usize,
    pub bytes: usize,
}

impl Default for MailboxLimits {
    fn default() -> Self {
        Self { events: 256, bytes: 1024 * 1024 }
    }
}

/// The result of [`ExecutionStore::load_executions`].
#[derive(Debug, Clone)]
pub enum LoadVerdict {
    Found(Box<LoadedExecution>),
    /// No such execution: a doorbell for an execution that retention removed.
    Missing,
    /// Its snapshot or log cannot be decoded. The caller pauses it; the others continue.
    Corrupt {
        reason: String,
    },
}

#[derive(Debug, Clone)]
pub struct LoadedExecution {
    pub execution: ExecutionKey,
    /// The accept_no of its start event: no other execution has it, not even one by the same id.
    pub position: AcceptNo,
    pub definition: DefinitionRef,
    pub seq: Seq,
    pub pause: PauseState,
    /// The newest snapshot and the transitions after it; `None` when the caller's `known` is current.
    pub state: Option<(ExecutionState, Vec<Transition>)>,
    /// With `state`, of a graph: the blob that belongs to the snapshot. The graph inside `state` is empty.
    pub graph: Option<Arc<[u8]>>,
    /// The seq of the stored snapshot.
    pub snapshot_seq: Seq,
    pub mailbox: Vec<MailboxEvent>,
    /// Whether undecided events remain beyond the limits: ring again.
    pub more: PageRemainder,
}

/// Whether a mailbox was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageRemainder {
    Remains,
    Nothing,
}

/// Everything that one visit to one execution decided.
#[derive(Debug, Clone)]
pub struct ExecutionCommit {
    pub execution: ExecutionKey,
    /// The definition of the execution, as loaded: leased actions carry it.
    pub definition: DefinitionRef,
    /// The seq that the decisions were based on: the fence.
    pub expected: Seq,
    /// The state after all transitions of this commit (its `seq` is the new seq). Always given, for
    /// the columns `state`, `phase`, `seq` and `updated_at`.
    pub state: ExecutionState,
    /// Whether the snapshot blob is written this time.
    pub snapshot: SnapshotWrite,
    pub transitions: Vec<Transition>,
    /// Verdicts on events, each one applied, rejected or deferred; each event once. They are part of
    /// the fence. An applied event gets worker, seq, states, status, error,
    /// `started_at` and, if its status is final, `completed_at`; a rejected one gets worker, its state
    /// as `from_state`, the reason as error, and `completed_at`.
    pub decided: Vec<DecidedEvent>,
    /// Timers armed by `transitions` and still valid at the end of the commit.
    pub timers: Vec<ArmedTimer>,
    /// Timers armed by these seqs are cancelled.
    pub cancelled_timers: Vec<Seq>,
    pub actions: Vec<NewAction>,
    /// Outcome events of actions that were settled inline, for this execution; accepted in order,
    /// undecided. Their `idempotency` is not looked at.
    pub emitted: Vec<EventSubmission>,
    /// The execution was ended by request: its actions without a lease are cancelled as well.
    pub open_actions: OpenActions,
    /// Of a graph whose transitions these are; with an entry in the feed.
    pub graph: Option<Box<GraphRows>>,
}

/// Whether a commit carries a new snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotWrite {
    Write,
    Skip,
}

/// How a commit treats actions of earlier transitions that have no lease.
///
/// `Cancel` makes every `waiting` or `ready` action (one between two attempts included) `cancelled`; `leased`
/// ones stay and may settle. An event that was `processing` and has no open action left after this is
/// `completed`: its transition stays applied and no further effect follows. A `failed` event stays failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenActions {
    Keep,
    Cancel,
}

/// The verdict on one event.
#[derive(Debug, Clone)]
pub struct DecidedEvent {
    pub event_id: EventId,
    /// Its place in the mailbox, as loaded.
    pub accept_no: AcceptNo,
    pub verdict: EventVerdict,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventVerdict {
    /// `status` is `completed`, or `processing` while actions are open, or `failed`.
    Applied {
        seq: Seq,
        from: Option<Name>,
        to: Name,
        status: EventStatus,
        error: Option<String>,
    },
    Rejected {
        state: Name,
        reason: String,
    },
    Deferred,
}

/// An action of a transition of this commit.
#[derive(Debug, Clone)]
pub struct NewAction {
    pub key: ActionKey,
    pub event_id: EventId,
    /// Of the event: leased actions carry it.
    pub traceparent: Option<String>,
    pub ordinal: i32,
    pub needs: Vec<Name>,
    /// `Waiting`, `Ready`, `Standby`, or settled already (`Succeeded`, `Failed`, `Skipped`).
    pub status: ActionStatus,
    pub terms: LeasePolicy,
    /// Of an undo action: the action that it undoes.
    pub undoes: Option<Name>,
    pub input: Option<RawJson>,
    pub scope: Option<RawJson>,
    pub result: Option<RawJson>,
    pub error: Option<RawJson>,
    /// Of one that is `Failed` already: whether an emitted event handles the failure.
    pub handling: FailureHandling,
    /// Of one that is `Failed` already and unhandled.
    pub incident: Option<NewIncident>,
    /// Whether settling it concerns other actions of its transition.
    pub company: ActionRelation,
}

/// Relation of an action to the others of its transition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionRelation {
    /// Others may need it, or undo it: settling it reads all of them.
    Together,
    /// No dependencies and no dependents. There may be thousands; settling one reads no other.
    Independent,
}

/// The verdict on one [`ExecutionCommit`].
#[derive(Debug, Clone)]
pub enum CommitVerdict {
    Done {
        /// Leased to the committing worker.
        leased: Vec<LeasedAction>,
        /// Ready but unleased actions remain: ring the doorbell.
        unleased: usize,
        /// Accepted numbers of `emitted`, in order; empty when there were none.
        emitted: Vec<AcceptNo>,
    },
    /// The execution is at another seq or paused, or an event was decided meanwhile. Nothing of this item was
    /// written: load again.
    Conflict,
    Missing,
}
