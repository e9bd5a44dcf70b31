//! The execution log: transitions, the state they fold into, planned actions.
//!
//! A transition records what was *decided*, not how: replay folds it and never evaluates an
//! expression, so no upgrade of Millstream changes history. Blobs carry a format number.

use std::collections::BTreeMap;
use std::sync::Arc;

use millstream_model::context::{ExecutionContext, context_bytes};
use millstream_model::id::{AcceptNo, EventId, ExecutionId, Name, Seq};
use millstream_model::raw::RawJson;
use millstream_model::status::ExecutionPhase;
use millstream_model::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::definition::ParentClose;
use crate::graph::{Graph, GraphChange};

/// The format that this build writes into transition and snapshot blobs. It reads this one and the
/// one before.
pub const FORMAT: u8 = 1;

/// One applied event. `seq`, `event_id`, `name` and `at` are columns, the rest is a blob
/// ([`TransitionDecision`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    pub seq: Seq,
    pub event_id: EventId,
    pub name: Name,
    /// Never before the `at` of the transition before it.
    pub at: Timestamp,
    pub decision: TransitionDecision,
}

/// The decision of a step, stored as a blob.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransitionDecision {
    pub format: u8,
    /// Which of the ordered alternatives was taken; 0 for the engine's own events.
    pub branch: u32,
    /// `None` at creation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Name>,
    pub to: Name,
    /// Whether a state was entered: timers of the one before are cancelled, new ones armed. An
    /// internal transition stays.
    pub entered: StateEntry,
    /// Only the top-level values that the transition wrote; at creation the whole context.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set: ExecutionContext,
    pub phase: ExecutionPhase,
    /// Why the execution ended, if not by entering a final state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timers: Vec<ArmedTimer>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<Name>,
    /// At creation: the parent of a child execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ExecutionParent>,
    /// The correlation, if the transition set or changed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation: Option<String>,
    /// Of a graph: the changes of its nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<Box<GraphChange>>,
}

/// The action that started a child execution. Both belong to the same tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutionParent {
    pub execution: ExecutionId,
    pub seq: Seq,
    pub action: Name,
    pub close: ParentClose,
    /// Number of ancestors: the depth below the root execution.
    #[serde(default = "first_level", skip_serializing_if = "is_first_level")]
    pub depth: u64,
}

/// Default for children that were started before depths were recorded.
const fn first_level() -> u64 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
const fn is_first_level(depth: &u64) -> bool {
    *depth == first_level()
}

/// Whether a transition entered a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StateEntry {
    Entered,
    Stayed,
}

/// A timer that a transition started. Its identity is (execution, `armed_seq`, `ordinal`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArmedTimer {
    /// The seq of the entry that armed it; [`ArmedTimer::EXECUTION_TIMEOUT`] for the execution's own.
    pub armed_seq: Seq,
    /// Its place in the state's `after` list.
    pub ordinal: i32,
    pub fire_at: Timestamp,
    pub send: Name,
}

impl ArmedTimer {
    /// `armed_seq` of the timer behind a definition's `timeout`: no entry, so no state change
    /// cancels it.
    pub const EXECUTION_TIMEOUT: Seq = Seq(0);
}

/// The input of the next step: the fold of all transitions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutionState {
    pub format: u8,
    pub seq: Seq,
    pub state: Name,
    /// The seq of the transition that entered the current state: timers carry it.
    pub entered_seq: Seq,
    pub phase: ExecutionPhase,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub context: ExecutionContext,
    /// When the last transition happened.
    pub at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ExecutionParent>,
    /// Key by which signals address the execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation: Option<String>,
    /// Of a graph. Not part of the snapshot's JSON: it is stored in a separate protobuf blob.
    #[serde(skip)]
    pub graph: Option<Arc<Graph>>,
}

impl ExecutionState {
    /// Approximate size of the context as JSON, for the size limit.
    pub fn context_bytes(&self) -> usize {
        context_bytes(&self.context)
    }
}

/// Origin of an event, as far as the decision depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum EventOrigin {
    /// A client, an action's outcome, another execution.
    Posted,
    /// A timer that was armed by the entry at `armed_seq`: stale once that state has been left.
    Timer { armed_seq: Seq },
}

/// An event in an execution's mailbox: undecided, or deferred earlier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailboxEvent {
    pub event_id: EventId,
    pub accept_no: AcceptNo,
    pub name: Name,
    pub payload: RawJson,
    pub accepted_at: Timestamp,
    pub origin: EventOrigin,
    pub kept: MailboxState,
    /// Number of decision attempts that ended in a crash or an error.
    pub attempts: i32,
    /// W3C trace context of the request that posted it.
    pub traceparent: Option<String>,
}

/// Whether an event in the mailbox is new or was deferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailboxState {
    Undecided,
    Deferred,
}

/// An action of a transition, ready to be written to the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedAction {
    pub name: Name,
    /// Its position in the `do` list.
    pub ordinal: i32,
    pub needs: Vec<Name>,
    pub plan: ActionPlan,
}

/// When and how the input of an action is rendered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ActionPlan {
    /// No external effect and no dependency: settled in the commit of the transition.
    Inline { input: RawJson, result: RawJson },
    /// Its input is rendered; it may be leased at once.
    Ready { input: RawJson },
    /// Depends on the results of other actions. `scope` holds the values of `context`, `event` and `now` that
    /// its expressions reference, as of the end of the transition; the results complete it.
    Waiting { scope: RawJson },
    /// A compensation (undo) action: waits until its action has to be compensated.
    Standby { scope: RawJson },
    /// Its input could not be rendered: it fails permanently without an attempt.
    Broken { error: String, scope: RawJson },
}

/// The decision about one event of the mailbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventOutcome {
    /// It took the next seq.
    Applied(Box<AppliedEvent>),
    /// It causes no transition, for the given reason.
    Rejected { reason: String },
    /// It stays in the mailbox for a later state.
    Deferred,
}

/// One transition with its planned actions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppliedEvent {
    pub transition: Transition,
    pub actions: Vec<PlannedAction>,
}

/// All decisions of one mailbox visit, in the order of decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VisitDecisions {
    /// Each event at most once.
    pub outcomes: Vec<(EventId, EventOutcome)>,
    /// The state after all of them.
    pub state: ExecutionState,
    /// Why the visit left decidable events undecided.
    pub unfinished: Option<UnfinishedReason>,
}

/// Why a visit ended before the whole mailbox was decided. No outcome depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnfinishedReason {
    /// The work limit of the visit was reached; the next visit decides the rest.
    Rest,
    /// The stop rule abandoned the decision of this event, which stays undecided.
    Abandoned(EventId),
}
