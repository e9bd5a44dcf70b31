//! Performing: leases on actions and the settlement of their outcomes.
//!
//! At least one attempt, at most one recorded outcome. Every call on a leased action (renew, record its
//! input, settle, release) names the epoch of the lease, the fencing token; it has no effect after another
//! worker has leased the action. Settling first locks the rows of the events, then records outcomes, frees
//! dependents and derives the events' status, in one transaction: of two actions that settle at once the
//! second sees the first.

use std::collections::BTreeMap;
use std::time::Duration;

use millstream_model::id::{ActionKey, DefinitionRef, Epoch, EventId, Name, WorkerId};
use millstream_model::raw::RawJson;
use millstream_model::status::{EventStatus, ExecutionPhase};
use millstream_model::time::Timestamp;
pub use millstream_workflow::settle_outcome::{ActionAttempt, AfterFailure, FailureHandling, SettleOutcome};

use crate::StoreResult;
use crate::lease_grant::LeaseGrant;

#[async_trait::async_trait]
pub trait ActionStore: Send + Sync {
    /// Lease up to `grant.slots` actions of the queues of `grant` that are due: `Ready` and their time has
    /// come, or `Leased` with an expired lease, or `Awaiting` beyond its time. Within one queue the action
    /// that has been due longest comes first. Each lease raises the epoch by one and the attempt counter by
    /// one, and ends after the action's own `heartbeat`, if it has one, or after `grant.ttl`; it never
    /// outlasts its `attempt` timeout, counted from this lease. Slots are shared fairly between several
    /// queues. A pause of the execution stops its mailbox, not its actions. Safe to call concurrently: no
    /// action goes to two callers.
    ///
    /// The actions of the answer belong to the takers in order: the first action to the first taker, the
    /// second to the second; what exceeds the last taker's share belongs to the last taker. Without takers
    /// nothing is leased.
    async fn lease_each(
        &self,
        takers: &[WorkerId],
        grant: &LeaseGrant,
        now: Timestamp,
    ) -> StoreResult<Vec<LeasedAction>>;

    /// Extend leases that are still held, by as much as a new one would last and never beyond the end of the
    /// attempt, and store the reported progress; in the order given. A lease that has expired without another
    /// lease on the action is still held: the epoch decides, here and in all calls below, and only while the
    /// action is `Leased` (renewing and settling: or `Awaiting`). For an `Awaiting` action only the progress
    /// is stored; its time stays as it is.
    async fn renew_leases(
        &self,
        beats: &[LeaseHeartbeat],
        worker: &WorkerId,
        grant: &LeaseGrant,
        now: Timestamp,
    ) -> StoreResult<Vec<LeasePulse>>;

    /// Store rendered inputs, once: an existing input is kept. `false` when the lease is lost.
    async fn record_inputs(&self, inputs: &[(Lease, RawJson)]) -> StoreResult<Vec<bool>>;

    /// Record outcomes of attempts, in one transaction. See the module's header.
    ///
    /// A `Waiting` action becomes ready when everything that it needs has succeeded, and is leased to
    /// `worker` as far as `grant.slots` go and if its queue is among those of `grant`; it is skipped, and its
    /// dependents in turn, as soon as one of its dependencies has failed. An event that is `processing` is
    /// `completed` when all its actions are settled; failures that an `emit` handles count as settled. An
    /// event that is `failed` stays so. Emitted events go to the action's own execution; their `idempotency`
    /// is ignored. A lease that occurs twice in the batch is stale the second time.
    async fn settle_actions(
        &self,
        worker: &WorkerId,
        batch: &[Settlement],
        grant: &LeaseGrant,
        now: Timestamp,
    ) -> StoreResult<SettledBatch>;

    /// Give leases back unperformed (a drain): the actions are ready again at once and the attempt is not
    /// counted. The epoch stays, so the returned lease is void and the next one is higher. A lost lease is
    /// ignored.
    async fn release_leases(&self, leases: &[Lease], now: Timestamp) -> StoreResult<()>;
}

impl dyn ActionStore + '_ {
    /// [`lease_each`](ActionStore::lease_each), all for one worker.
    pub async fn lease(
        &self,
        worker: &WorkerId,
        grant: &LeaseGrant,
        now: Timestamp,
    ) -> StoreResult<Vec<LeasedAction>> {
        self.lease_each(std::slice::from_ref(worker), grant, now).await
    }
}

/// A right to act on an action.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lease {
    pub key: ActionKey,
    pub epoch: Epoch,
}

/// A heartbeat of the holder of a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseHeartbeat {
    pub lease: Lease,
    /// Stored for the next attempt and for views; `None` leaves the stored progress.
    pub progress: Option<RawJson>,
}

impl From<Lease> for LeaseHeartbeat {
    fn from(lease: Lease) -> Self {
        Self { lease, progress: None }
    }
}

/// The answer to a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeasePulse {
    Held {
        until: Timestamp,
        wanted: OutcomeDemand,
    },
    /// Another lease has been granted, or the outcome is recorded.
    Lost,
}

/// Whether the outcome is still wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutcomeDemand {
    Yes,
    /// Its execution was ended by request: cancelled, or failed by a person's decision. Or it was a graph,
    /// which cancels all running nodes when it ends.
    Cancelled,
}

impl OutcomeDemand {
    /// Derived from the phase of an execution, its definition and the event of its last transition.
    pub fn of_execution(phase: ExecutionPhase, definition: &Name, last: Option<&Name>) -> Self {
        match phase {
            ExecutionPhase::Cancelled => Self::Cancelled,
            ExecutionPhase::Failed if last.is_some_and(Name::is_end) => Self::Cancelled,
            ExecutionPhase::Completed | ExecutionPhase::Failed if *definition == Name::graph() => {
                Self::Cancelled
            }
            ExecutionPhase::Active | ExecutionPhase::Completed | ExecutionPhase::Failed => Self::Yes,
        }
    }
}

/// An action that the caller may perform now.
#[derive(Debug, Clone)]
pub struct LeasedAction {
    pub lease: Lease,
    pub event_id: EventId,
    pub definition: DefinitionRef,
    /// This attempt's number, from 1.
    pub attempt: i32,
    /// Rendered already, or to be rendered from `scope` and `results`.
    pub input: Option<RawJson>,
    pub scope: Option<RawJson>,
    /// Results of the actions that it needs.
    pub results: BTreeMap<Name, RawJson>,
    pub traceparent: Option<String>,
    /// By the store's clock.
    pub lease_until: Timestamp,
    /// How often a person gave it another input; each has a key of its own.
    pub revision: i32,
    /// The action's own, if it promised signs of life.
    pub heartbeat: Option<Duration>,
    /// The last progress that earlier attempts reported.
    pub progress: Option<RawJson>,
    /// When it became ready: `schedule_to_close` counts from here.
    pub ready_at: Timestamp,
    /// The action has failed finally and every undo is done: the worker reports this error and performs
    /// nothing.
    pub closing: Option<RawJson>,
    pub begun: LeaseOrigin,
}

impl LeasedAction {
    /// The attempt that this lease is for.
    pub fn as_attempt(&self) -> ActionAttempt<'_> {
        ActionAttempt {
            key: &self.lease.key,
            revision: self.revision,
            attempts: self.attempt,
            ready_at: Some(self.ready_at),
            traceparent: self.traceparent.as_deref(),
        }
    }
}

/// Whether a leased action was [`Awaiting`](SettleOutcome::Awaiting) an outcome from outside before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseOrigin {
    No,
    /// It was [`Awaiting`](SettleOutcome::Awaiting) and no outcome arrived: the worker gives it up.
    Awaited,
}

/// The outcome of one attempt.
#[derive(Debug, Clone)]
pub struct Settlement {
    pub lease: Lease,
    pub event_id: EventId,
    pub outcome: SettleOutcome,
}

/// What [`ActionStore::settle_actions`] did.
#[derive(Debug, Clone, Default)]
pub struct SettledBatch {
    /// In the order of the batch.
    pub verdicts: Vec<SettleVerdict>,
    /// Dependents that became ready and are leased to the caller.
    pub leased: Vec<LeasedAction>,
    /// Dependents that became ready and are not leased: ring the doorbell.
    pub unleased: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettleVerdict {
    /// Recorded; the event has this status after the whole batch. The verdict on an
    /// [independent](crate::execution_store::ActionRelation::Independent) action ignores the other actions: it says
    /// what the status would be without them. The event's view says whether the event is completed.
    Recorded { event: EventStatus },
    /// The lease had passed on, or the outcome was recorded before. Nothing was written.
    Stale,
}
