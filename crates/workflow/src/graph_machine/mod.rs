//! The graph machine: the pure functions that decide the events of a graph execution.
//!
//! Everything works as for the [machine](crate::machine) of a definition: events are decided in order, a
//! transition records the decision, [`fold_change`](crate::graph::fold_change) applies it to the state, and side
//! effects are actions of the transition, here the dispatch of a node.
//!
//! ```text
//!   create_graph ─→ State ─┐                  ┌─→ Applied ─→ fold_change ─→ State
//!                    ├─ step_graph/decide_mailbox ┤
//!   mailbox ─────────┘                        └─→ Rejected
//! ```
//!
//! Reading order: [`create_graph`], [`step_graph`], `outcome` and `propagate` (propagation of a node's end), `admit`
//! (dispatching within the parallelism limit), `edit` and `ending`; then [`redecide_graph`] and the notices.

mod admit;
mod condition;
mod create;
mod edit;
mod ending;
mod notices;
mod outcome;
mod propagate;
mod redecide;
mod snapshot;
mod step;
mod turn;

#[cfg(test)]
mod tests;

pub use create::create_graph;
pub use edit::is_revision_conflict;
pub use notices::{GraphTransitionNotice, transition_notices};
pub use redecide::redecide_graph;
pub use snapshot::snapshot_due;
pub use step::{step_graph, step_graph_within};
pub use turn::{decide_mailbox, decide_mailbox_within};
