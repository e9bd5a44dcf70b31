//! The state machine: a compiled definition, and the pure functions that decide events with it.
//!
//! ```text
//!   create_execution ─→ State ─┐            ┌─→ Applied ─→ evolve ─→ State
//!                    ├─ step/decide_mailbox ┼─→ Rejected
//!   mailbox ─────────┘            └─→ Deferred
//! ```
//!
//! `step` may reject an event; `evolve` is total: it folds recorded decisions and evaluates nothing. No
//! clock, no randomness, no I/O: every input of a decision is an argument.

mod capture;
mod compile;
mod compiled_action;
mod correlation;
mod create;
mod end_without_definition;
mod evolve;
mod input;
mod internal_actions;
mod mailbox_visit;
mod plan;
mod redecide;
mod render;
mod snapshot;
mod step;

pub use compile::Machine;
pub(crate) use compiled_action::action_problems;
pub use correlation::{MAX_CORRELATION_BYTES, check_correlation};
pub use create::{
    CreationError, ExecutionCreation, FirstTransition, create_execution, create_execution_within,
    create_executions,
};
pub use end_without_definition::decide_without_definition;
pub use evolve::evolve;
pub(crate) use evolve::fold_transition;
pub use input::{
    ActionInput, CallInput, DeviceInput, EmitInput, EmitTo, HttpInput, ReturnInput, StartInput, TaskForInput,
    TaskInput, WaitInput, WebhookInput,
};
pub use internal_actions::internal_action_policy;
pub use mailbox_visit::{ENDED, MAX_DEFERRED, decide_mailbox, decide_mailbox_within};
pub(crate) use plan::plan_end_actions;
pub(crate) use redecide::compare_decisions;
pub use redecide::{DecisionDifference, RecordedTransition, redecide_history};
pub use render::{RenderError, map_http_response, render_deferred_input};
pub use snapshot::{SMALL_CONTEXT_BYTES, SnapshotDecision, TRANSITIONS_PER_SNAPSHOT, snapshot_due};
pub(crate) use step::requested_reason;
pub use step::{step, step_within};

#[cfg(test)]
mod tests;
