//! Graphs, the second kind of program: a DAG of nodes that executors perform.
//!
//! An execution whose definition is `millstream.graph` has its program in its own log: seq 1 holds the graph.
//! Everything else works as for a machine: events are decided in order, a transition records the decision,
//! `fold` applies it to the state, and side effects are actions of the transition, here the dispatch of a
//! node.
//!
//! ```text
//!   create ─→ State ─┐            ┌─→ Applied ─→ fold ─→ State
//!                    ├─ step/turn ┤
//!   mailbox ─────────┘            └─→ Rejected
//! ```
//!
//! Reading order: what users write ([`GraphSpec`]), what the log records ([`Change`]), the state ([`Graph`])
//! and the fold between them; then the decisions: `check` and `create`, `step`, `outcome` and `ripple`
//! (propagation of a node's end), `room` (dispatching within the parallelism limit), `patch` (edits) and
//! `ending`.

mod assemble;
mod change;
mod check;
mod check_node;
mod check_size;
mod condition;
mod create;
mod cycle;
mod dispatch;
pub mod draw;
mod edited;
mod ending;
mod fan_out;
mod fold;
mod found;
pub mod limits;
mod mention;
mod notices;
mod outcome;
mod patch;
mod payload;
pub mod placement;
mod read;
mod redecide;
mod ripple;
mod room;
mod seats;
mod snapshot;
mod spec;
mod state;
mod status;
mod step;
mod token;
mod turn;
mod why;

#[cfg(test)]
mod tests;

pub use assemble::{NodeParts, Parts};
pub use change::{Change, Created, Expansion, NodeChange, Patch, Updated};
pub use check::validate;
pub use check_size::{edit_check_bytes, graph_check_bytes};
pub use create::create;
pub use dispatch::{NodeInput, Work, dispatch_spec};
pub use edited::is_revision_conflict;
pub use fan_out::{fan_out_result, instance_id};
pub use fold::fold;
pub use found::Invalid;
pub use mention::mentioned;
pub use notices::{Notice, notices};
pub use patch::patch;
pub use payload::{Answer, Edit, NodeOutcome};
pub use placement::{Candidate, Choice, Request, can_do, choose, why_nobody};
pub use read::{WrittenPatch, read, read_patch};
pub use redecide::redecide;
pub use seats::{Claim, NodeRoom, Seats, Taken, seats};
pub use snapshot::snapshot_due;
pub use spec::{
    Agent, Edge, FanOut, GraphOptions, GraphSpec, NodeEdit, NodeId, NodeOptions, NodeRetry, NodeSpec,
    OnFailure, SubExecution, Task,
};
pub use state::{Graph, Instances, Node, Tally};
pub use status::NodeStatus;
pub use step::{step, step_within};
pub use token::Token;
pub use turn::{turn, turn_within};
