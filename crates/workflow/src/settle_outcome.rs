//! What is recorded about an attempt at an action: the one shape between the decision of
//! [`crate::action`] and the rows of a store. New ids and times are part of it.

use millstream_model::id::ActionKey;
use millstream_model::incident::NewIncident;
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;

use crate::event_submission::EventSubmission;

/// The action and attempt that an outcome belongs to.
#[derive(Debug, Clone, Copy)]
pub struct ActionAttempt<'a> {
    pub key: &'a ActionKey,
    pub revision: i32,
    /// Number of this attempt, from 1.
    pub attempts: i32,
    /// Start of `schedule_to_close`; `None` if the outcome is concluded without that limit.
    pub ready_at: Option<Timestamp>,
    pub traceparent: Option<&'a str>,
}

impl ActionAttempt<'_> {
    /// In the form that attempts carry.
    pub fn attempt_id(&self) -> String {
        self.key.with_revision(self.revision)
    }

    /// The number of the attempt, as conclusions count it.
    pub fn attempt_number(&self) -> u32 {
        u32::try_from(self.attempts).unwrap_or(1)
    }
}

#[derive(Debug, Clone)]
pub enum SettleOutcome {
    /// Succeeded; `emit` is appended in the same transaction.
    Succeeded { result: RawJson, emit: Option<Box<EventSubmission>> },
    /// Retry from `at` on; the error is stored until then. In an execution that was cancelled meanwhile the
    /// action is `cancelled` instead, as if it had not been leased.
    Retry { error: RawJson, at: Timestamp },
    /// Postponed: ready again from `at` on, the attempt is not counted. An error says what it waits for, and
    /// is stored as with `Retry`. In a cancelled execution it is `cancelled`, as with `Retry`.
    Postponed { at: Timestamp, error: Option<RawJson> },
    /// Begun; the outcome arrives later from outside, under the same lease, which needs no renewal. From
    /// `until` on any worker can lease it again, in order to give it up: it is in the engine's own queue from
    /// now on.
    Awaiting { until: Option<Timestamp> },
    /// Failed finally: dependents are skipped, and then see [`AfterFailure`].
    Failed { error: RawJson, then: AfterFailure },
}

#[derive(Debug, Clone)]
pub enum AfterFailure {
    /// An event of the definition's own handles it.
    Emit(Box<EventSubmission>),
    /// The completed actions of the transition are undone first; then the action is leased once more, in
    /// order to report the failure ([`conclude_compensation`](crate::action::conclude_compensation)).
    Compensate,
    /// The event fails (with the reason as its error), an incident is opened, and the execution is paused
    /// from this commit on, if it is active and not paused already.
    Incident(NewIncident),
}

impl SettleOutcome {
    /// The event that enters the mailbox of the execution with the outcome.
    pub fn emitted_event(&self) -> Option<&EventSubmission> {
        match self {
            Self::Succeeded { result: _, emit } => emit.as_deref(),
            Self::Failed { error: _, then: AfterFailure::Emit(event) } => Some(event),
            Self::Failed { error: _, then: AfterFailure::Compensate | AfterFailure::Incident(_) }
            | Self::Retry { .. }
            | Self::Postponed { .. }
            | Self::Awaiting { .. } => None,
        }
    }
}

impl AfterFailure {
    pub const fn handling(&self) -> FailureHandling {
        match self {
            Self::Emit(_) | Self::Compensate => FailureHandling::Handled,
            Self::Incident(_) => FailureHandling::Unhandled,
        }
    }
}

/// Whether an event of the definition's own handled a final failure. A handled failure is over: a retry of
/// the event reopens only unhandled ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureHandling {
    Handled,
    Unhandled,
}
