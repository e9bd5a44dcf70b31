//! The state machine: a compiled definition, and the pure functions that decide events with it.
//!
//! ```text
//!   create ─→ State ─┐            ┌─→ Applied ─→ evolve ─→ State
//!                    ├─ step/turn ┼─→ Rejected
//!   mailbox ─────────┘            └─→ Deferred
//! ```
//!
//! `step` may reject an event; `evolve` is total: it folds recorded decisions and evaluates nothing. No
//! clock, no randomness, no I/O: every input of a decision is an argument.

mod capture;
mod closing;
mod compile;
mod compiled_action;
mod correlation;
mod create;
mod evolve;
mod input;
mod internal;
mod plan;
mod redecide;
mod render;
mod snapshot;
mod step;
mod turn;

pub use closing::closing;
pub use compile::Machine;
pub(crate) use compiled_action::action_problems;
pub use correlation::{MAX_CORRELATION_BYTES, valid_correlation};
pub use create::{CreationError, ExecutionCreation, FirstTransition, create, create_some, create_within};
pub use evolve::evolve;
pub(crate) use evolve::fold;
pub use input::{
    ActionInput, CallInput, DeviceInput, EmitInput, EmitTo, HttpInput, ReturnInput, StartInput, TaskForInput,
    TaskInput, WaitInput, WebhookInput,
};
pub use internal::internal;
pub(crate) use plan::at_the_end;
pub(crate) use redecide::compare;
pub use redecide::{Difference, Recorded, redecide};
pub use render::{RenderError, render, respond};
pub use snapshot::{SMALL_CONTEXT_BYTES, Snapshot, TRANSITIONS_PER_SNAPSHOT, snapshot_due};
pub(crate) use step::given_reason;
pub use step::{step, step_within};
pub use turn::{ENDED, MAX_DEFERRED, turn, turn_within};

#[cfg(test)]
mod tests;
