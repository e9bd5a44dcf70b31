//! Graphs, the second kind of program: a DAG of nodes that executors perform.
//!
//! An execution whose definition is `millstream.graph` has its program in its own log: seq 1 holds the graph.
//! Everything else works as for a machine: events are decided in order, a transition records the decision,
//! `fold_change` applies it to the state, and side effects are actions of the transition, here the dispatch of a
//! node.
//!
//! ```text
//!   create_graph ─→ State ─┐            ┌─→ Applied ─→ fold_change ─→ State
//!                    ├─ step_graph/decide_mailbox ┤
//!   mailbox ─────────┘            └─→ Rejected
//! ```
//!
//! Reading order: what users write ([`GraphSpec`]), what the log records ([`GraphChange`]), the state ([`Graph`])
//! and the fold between them; then the decisions: `check` and `create_graph`, `step_graph`, `outcome` and `propagate`
//! (propagation of a node's end), `admit` (dispatching within the parallelism limit), `build_patch` (edits) and
//! `ending`.

mod admit;
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
mod edit;
mod ending;
mod fan_out;
mod fold;
mod lease_sizing;
pub mod limits;
mod mention;
mod node_token;
mod notices;
mod outcome;
mod patch;
mod payload;
pub mod placement;
mod problems;
mod propagate;
mod read;
mod redecide;
mod snapshot;
mod spec;
mod state;
mod status;
mod step;
mod turn;
mod why;

#[cfg(test)]
mod tests;

pub use assemble::{GraphParts, NodeParts};
pub use change::{CreatedGraph, FanOutExpansion, GraphChange, GraphPatch, NodeChange, NodeSpecUpdate};
pub use check::validate_graph;
pub use check_size::{edit_check_bytes, graph_check_bytes};
pub use create::create_graph;
pub use dispatch::{NodeInput, NodePerformer, dispatch_spec};
pub use edit::is_revision_conflict;
pub use fan_out::{fan_out_result, instance_id};
pub use fold::fold_change;
pub use lease_sizing::{ExecutorCapacity, HeldNodes, NodeLeaseAllowance, NodeLeaseLimits, lease_allowance};
pub use mention::mentioned_by_edits;
pub use node_token::NodeToken;
pub use notices::{GraphTransitionNotice, transition_notices};
pub use patch::build_patch;
pub use payload::{ExecutorAnswer, GraphEdit, NodeOutcome};
pub use placement::{
    DispatchRequirements, ExecutorCandidate, ExecutorChoice, choose_executor, explain_no_executor,
    meets_requirements,
};
pub use problems::InvalidGraph;
pub use read::{WrittenPatch, read_graph, read_patch};
pub use redecide::redecide_graph;
pub use snapshot::snapshot_due;
pub use spec::{
    FanOut, GraphEdge, GraphOptions, GraphSpec, NodeAgent, NodeEdit, NodeId, NodeOnFailure, NodeOptions,
    NodeRetry, NodeSpec, NodeTask, SubExecution,
};
pub use state::{FanOutInstances, Graph, Node, NodeTally};
pub use status::NodeStatus;
pub use step::{step_graph, step_graph_within};
pub use turn::{decide_mailbox, decide_mailbox_within};
