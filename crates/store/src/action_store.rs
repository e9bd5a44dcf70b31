//! Performing: leases on actions and the settlement of their outcomes.
//!
//! At least one attempt, at most one recorded outcome. Every act on a leased action (renew, record
//! its input, settle, release) names the epoch of the lease and is void when the lease has passed on.
//! Settling first locks the rows of the events, then records outcomes, frees dependents and derives
//! the events' status, in one transaction: of two actions that settle at once the second sees the
//! first.

use std::collections::BTreeMap;
use std::time::Duration;

use millstream_core::id::{ActionKey, DefinitionRef, Epoch, EventId, Name, WorkerId};
use millstream_core::incident::NewIncident;
use millstream_core::raw::RawJson;
use millstream_core::status::{EventStatus, Phase};
use millstream_core::time::Timestamp;

use crate::Result;
use crate::event_log::NewEvent;
use crate::execution_store::LeaseGrant;

#[async_trait::async_trait]
pub trait ActionStore: Send + Sync {
    /// Lease up to `grant.slots` actions of the queues of `grant` that are due (`Ready` and their time has
    /// come, or `Leased` with an expired lease, or `Awaiting` beyond its time), those of one queue that
    /// are due longest first. Each lease raises the epoch by one and the attempt counter by one, and ends
    /// after the action's own `heartbeat`, if it has one, or after `grant.ttl`; never after its `attempt`
    /// is over, counted from this lease. With several queues each is given its part of the slots. A pause of
    /// the execution stops its mailbox, not its actions. Safe to call from everywhere at once: no action
    /// goes to two callers.
    ///
    /// The first action of the answer is the first taker's, the second the second's, and so on; what comes
    /// after the last taker's is the last taker's as well. Without takers nothing is leased.
    async fn lease_each(
        &self,
        takers: &[WorkerId],
        grant: &LeaseGrant,
        now: Timestamp,
    ) -> Result<Vec<LeasedAction>>;

    /// Extend leases that are still held, by as much as a new one would last and never beyond the end of
    /// the attempt, and keep what progress they tell; in the order given. A lease that has run out and
    /// that nobody has taken over is still held: the epoch decides, here and in all acts below, and only
    /// while the action is `Leased` (renewing and settling: or `Awaiting`). Of one that is `Awaiting` the
    /// progress is kept and its time stays as it is.
    async fn renew(
        &self,
        beats: &[Beat],
        worker: &WorkerId,
        grant: &LeaseGrant,
        now: Timestamp,
    ) -> Result<Vec<Pulse>>;

    /// Store rendered inputs, once: an input that is there stays. `false` when the lease is lost.
    async fn record_inputs(&self, inputs: &[(Lease, RawJson)]) -> Result<Vec<bool>>;

    /// Record what came of attempts, in one transaction. See the module's header.
    ///
    /// A `Waiting` action becomes ready when everything that it needs has succeeded, and is leased to
    /// `worker` as far as `grant.slots` go and if its queue is among those of `grant`; it is skipped, and what needs it in turn, as soon as
    /// something that it needs has failed. An event that is `processing` is `completed` when all its
    /// actions are settled; failures that an `emit` handles count as settled. An event that is
    /// `failed` stays so. Emitted events go to the action's own execution; their `idempotency` is not
    /// looked at. A lease that occurs twice in the batch is stale the second time.
    async fn settle(
        &self,
        worker: &WorkerId,
        batch: &[Settlement],
        grant: &LeaseGrant,
        now: Timestamp,
    ) -> Result<Settled>;

    /// Give leases back unperformed (a drain): the actions are ready again at once and the attempt is
    /// not counted. The epoch stays, so the lease given back is void and the next one is higher. A
    /// lease that is lost is passed over.
    async fn release(&self, leases: &[Lease], now: Timestamp) -> Result<()>;
}

impl dyn ActionStore + '_ {
    /// [`lease_each`](ActionStore::lease_each), all for one worker.
    pub async fn lease(
        &self,
        worker: &WorkerId,
        grant: &LeaseGrant,
        now: Timestamp,
    ) -> Result<Vec<LeasedAction>> {
        self.lease_each(std::slice::from_ref(worker), grant, now).await
    }
}

/// A right to act on an action.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lease {
    pub key: ActionKey,
    pub epoch: Epoch,
}

/// A sign of life of whoever holds a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beat {
    pub lease: Lease,
    /// Kept for the next attempt and for those who look; `None` leaves what is there.
    pub progress: Option<RawJson>,
}

impl From<Lease> for Beat {
    fn from(lease: Lease) -> Self {
        Self { lease, progress: None }
    }
}

/// What came of a sign of life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pulse {
    Held {
        until: Timestamp,
        wanted: Wanted,
    },
    /// The lease has passed on, or the outcome is recorded.
    Lost,
}

/// Whether anybody still wants the outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    Yes,
    /// Its execution was ended by request: cancelled, or failed by a person's decision. Or it was a graph,
    /// which calls off whatever still runs when it ends.
    Cancelled,
}

impl Wanted {
    /// By the phase of an execution, its definition and the event of its last transition.
    pub fn of(phase: Phase, definition: &Name, last: Option<&Name>) -> Self {
        match phase {
            Phase::Cancelled => Self::Cancelled,
            Phase::Failed if last.is_some_and(Name::is_end) => Self::Cancelled,
            Phase::Completed | Phase::Failed if *definition == Name::graph() => Self::Cancelled,
            Phase::Active | Phase::Completed | Phase::Failed => Self::Yes,
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
    /// What the attempts before this one told last.
    pub progress: Option<RawJson>,
    /// Since when it may be performed: what `schedule_to_close` counts from.
    pub ready_at: Timestamp,
    /// It failed for good and everything is undone: this error is to be told, nothing is to be performed.
    pub closing: Option<RawJson>,
    pub begun: Begun,
}

/// Whether an action that is leased was handed to somebody else before, who was to tell its outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begun {
    No,
    /// It was [`Awaiting`](Settling::Awaiting) and nobody told: it is to be given up.
    Awaited,
}

/// What came of one attempt.
#[derive(Debug, Clone)]
pub struct Settlement {
    pub lease: Lease,
    pub event_id: EventId,
    pub outcome: Settling,
}

#[derive(Debug, Clone)]
pub enum Settling {
    /// Succeeded; `emit` is appended in the same transaction.
    Succeeded { result: RawJson, emit: Option<Box<NewEvent>> },
    /// To be tried again from `at` on; the error is kept until then. Not in an execution that was
    /// cancelled meanwhile: there the action is `cancelled`, as if nobody had held it.
    Retry { error: RawJson, at: Timestamp },
    /// It is not time yet: ready again from `at` on, the attempt is not counted. An error says what it waits for, and
    /// is kept as with `Retry`. In a cancelled execution it is `cancelled`, as with `Retry`.
    Postponed { at: Timestamp, error: Option<RawJson> },
    /// Begun; the outcome will be settled by somebody else, under the same lease, which needs no renewal.
    /// From `until` on it can be leased again, to be given up, which every worker can: it stands in the
    /// engine's queue from now on.
    Awaiting { until: Option<Timestamp> },
    /// Failed for good: dependents are skipped, and then see [`AfterFailure`].
    Failed { error: RawJson, then: AfterFailure },
}

#[derive(Debug, Clone)]
pub enum AfterFailure {
    /// An event of the definition's own handles it.
    Emit(Box<NewEvent>),
    /// What the transition has completed is undone first (see [`settling`](crate::settling)); then the
    /// action is leased once more, as [`closing`](LeasedAction::closing).
    Compensate,
    /// The event fails (with the reason as its error), an incident is opened, and the execution is paused
    /// from this commit on, if it is active and not paused already.
    Incident(NewIncident),
}

impl AfterFailure {
    pub const fn handling(&self) -> Handling {
        match self {
            Self::Emit(_) | Self::Compensate => Handling::Handled,
            Self::Incident(_) => Handling::Unhandled,
        }
    }
}

/// Whether a failure for good was answered by an event of the definition's own. What was answered is
/// over: [`retry`](crate::intervention::Interventions::retry) reopens only what was not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handling {
    Handled,
    Unhandled,
}

/// What [`ActionStore::settle`] did.
#[derive(Debug, Clone, Default)]
pub struct Settled {
    /// In the order of the batch.
    pub verdicts: Vec<SettleVerdict>,
    /// Dependents that became ready and are leased to the caller.
    pub leased: Vec<LeasedAction>,
    /// Dependents that became ready and are not: ring.
    pub unleased: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettleVerdict {
    /// Recorded; the event has this status after the whole batch. The verdict on an
    /// [independent](crate::execution_store::Company::Independent) action does not look at the others: it says
    /// what the status would be if there were none. Whether the event is completed is read off its view.
    Recorded { event: EventStatus },
    /// The lease had passed on, or the outcome was recorded before. Nothing was written.
    Stale,
}
