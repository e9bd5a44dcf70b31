//! What decides: a compiled definition, and the pure functions over it.
//!
//! ```text
//!   create ─→ State ─┐            ┌─→ Applied ─→ evolve ─→ State
//!                    ├─ step/turn ┼─→ Rejected
//!   mailbox ─────────┘            └─→ Deferred
//! ```
//!
//! `step` may refuse, `evolve` may not: it folds what was decided and evaluates nothing. No clock, no
//! randomness, no I/O: everything that decides is an argument.

mod capture;
mod closing;
mod compile;
mod compiled_action;
mod create;
mod evolve;
mod input;
mod redecide;
mod render;
mod snapshot;
mod step;
mod turn;

pub use closing::closing;
pub use compile::Machine;
pub use create::{Rejection, create};
pub use evolve::evolve;
pub use input::{ActionInput, HttpRequest};
pub use redecide::{Difference, Recorded, redecide};
pub use render::render;
pub use snapshot::{SMALL_CONTEXT_BYTES, Snapshot, TRANSITIONS_PER_SNAPSHOT, snapshot_due};
pub use step::step;
pub use turn::{ENDED, MAX_DEFERRED, turn};

#[cfg(test)]
mod tests;
