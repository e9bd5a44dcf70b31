//! What is written down about an execution: transitions, the state they fold into, planned work.
//!
//! A transition says what was *decided*, not how: replay folds it and never evaluates an
//! expression, so no upgrade of Millstream changes history. Blobs carry a format number.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::definition::ParentClose;
use crate::graph::{Change, Graph};
use crate::id::{AcceptNo, EventId, ExecutionId, Name, Seq};
use crate::raw::RawJson;
pub use crate::status::Phase;
use crate::time::Timestamp;

/// The format that this build writes into transition and snapshot blobs. It reads this one and the
/// one before.
pub const FORMAT: u8 = 1;

/// An execution's data: top-level keys with values kept as raw JSON, so that a step touches only
/// what its expressions mention.
pub type Context = BTreeMap<String, RawJson>;

/// An execution's context may not grow beyond this many bytes of JSON.
pub const MAX_CONTEXT_BYTES: usize = 256 * 1024;

/// One applied event. `seq`, `event_id`, `name` and `at` are columns, the rest is a blob
/// ([`Decision`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    pub seq: Seq,
    pub event_id: EventId,
    pub name: Name,
    /// Never before the `at` of the transition before it.
    pub at: Timestamp,
    pub decision: Decision,
}

/// What a step decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    pub format: u8,
    /// Which of the ordered alternatives was taken; 0 for the engine's own events.
    pub branch: u32,
    /// `None` at creation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Name>,
    pub to: Name,
    /// Whether a state was entered: timers of the one before are cancelled, new ones armed. An
    /// internal transition stays.
    pub entered: Entry,
    /// Only the top-level values that the transition wrote; at creation the whole context.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set: Context,
    pub phase: Phase,
    /// Why the execution ended, where the definition does not say it by a final state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timers: Vec<ArmedTimer>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<Name>,
    /// At creation: whose child it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// Where the transition gave the execution its correlation, or another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation: Option<String>,
    /// Of a graph: what happened to its nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<Box<Change>>,
}

/// The action that started a child execution. Both belong to the same tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    pub execution: ExecutionId,
    pub seq: Seq,
    pub action: Name,
    pub close: ParentClose,
    /// How many executions the child is below the one that has no parent.
    #[serde(default = "first_level", skip_serializing_if = "is_first_level")]
    pub depth: u64,
}

/// Of children that were started before depths were recorded.
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
pub enum Entry {
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

/// Everything the next step needs to know: the fold of all transitions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    pub format: u8,
    pub seq: Seq,
    pub state: Name,
    /// The seq of the transition that entered the current state: timers carry it.
    pub entered_seq: Seq,
    pub phase: Phase,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub context: Context,
    /// When the last transition happened.
    pub at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// By which signals find it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation: Option<String>,
    /// Of a graph. Not part of the snapshot's JSON: it is stored beside it, as a protobuf blob.
    #[serde(skip)]
    pub graph: Option<Arc<Graph>>,
}

impl State {
    /// The size of the context as JSON, near enough for a limit.
    pub fn context_bytes(&self) -> usize {
        context_bytes(&self.context)
    }
}

pub fn context_bytes(context: &Context) -> usize {
    2 + context.iter().map(|(key, value)| key.len() + value.len() + 4).sum::<usize>()
}

/// Where an event came from, as far as deciding it is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Origin {
    /// A client, an action's outcome, another execution.
    Posted,
    /// A timer that was armed by the entry at `armed_seq`: void once that entry has been left.
    Timer { armed_seq: Seq },
}

/// An event in an execution's mailbox: undecided, or deferred earlier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    pub event_id: EventId,
    pub accept_no: AcceptNo,
    pub name: Name,
    pub payload: RawJson,
    pub accepted_at: Timestamp,
    pub origin: Origin,
    pub kept: Kept,
    /// How often deciding it was given up by a crash or an error.
    pub attempts: i32,
    /// W3C trace context of the request that brought it.
    pub traceparent: Option<String>,
}

/// Whether an event in the mailbox is new or was deferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    Undecided,
    Deferred,
}

/// An action that a transition calls for, ready to be written into the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedAction {
    pub name: Name,
    /// Its place in the `do` list.
    pub ordinal: i32,
    pub needs: Vec<Name>,
    pub plan: Plan,
}

/// What has to happen before and while an action runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plan {
    /// No outside effect and nothing to wait for: settled in the transition's own commit.
    Inline { input: RawJson, result: RawJson },
    /// Its input is rendered; it may be leased at once.
    Ready { input: RawJson },
    /// It needs results of others. `scope` holds the values of `context`, `event` and `now` that its
    /// expressions mention, as they were after the transition; with the results it renders the input.
    Waiting { scope: RawJson },
    /// An undo action: it waits until what it takes back has to be taken back.
    Standby { scope: RawJson },
    /// Its input could not be rendered: it fails for good without an attempt.
    Broken { error: String, scope: RawJson },
}

/// The verdict on one event of the mailbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It took the next seq.
    Applied(Box<Applied>),
    /// It causes nothing, for the reason given.
    Rejected { reason: String },
    /// It is kept for a later state.
    Deferred,
}

/// One transition with the work that it calls for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    pub transition: Transition,
    pub actions: Vec<PlannedAction>,
}

/// Everything that one visit to a mailbox decided, in the order in which it was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// Each event at most once.
    pub outcomes: Vec<(EventId, Outcome)>,
    /// The state after all of them.
    pub state: State,
    /// Why events that could have been decided were not.
    pub unfinished: Option<Unfinished>,
}

/// Why a visit ended before its mailbox was decided. No outcome depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfinished {
    /// The visit had taken enough work; the rest is for another one.
    Rest,
    /// The stop rule ended the deciding of this event, which stays undecided.
    Abandoned(EventId),
}
