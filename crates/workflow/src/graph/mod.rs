//! Graphs, the second kind of program: a DAG of nodes that executors perform.
//!
//! An execution whose definition is `millstream.graph` has its program in its own log: seq 1 holds the graph.
//! This module holds the graph and everything that follows from it alone; [`graph_machine`](crate::graph_machine)
//! decides the events.
//!
//! Reading order: what users write ([`GraphSpec`]) and its validation (`check`), what the log records
//! ([`GraphChange`]), the state ([`Graph`]) and the fold between them ([`fold_change`]); then edits
//! ([`build_patch`]), the dispatch of a node ([`NodeInput`]) and its outcome ([`ExecutorAnswer`]), and the choice of
//! executors ([`placement`], `lease_sizing`).

mod assemble;
mod change;
mod check;
mod check_node;
mod check_size;
mod cycle;
mod dispatch;
pub mod draw;
mod fan_out;
mod fold;
mod lease_sizing;
pub mod limits;
mod mention;
mod node_token;
mod patch;
mod payload;
pub mod placement;
mod problems;
mod read;
mod spec;
mod state;
mod status;
pub(crate) mod why;

pub use assemble::{GraphParts, NodeParts};
pub use change::{CreatedGraph, FanOutExpansion, GraphChange, GraphPatch, NodeChange, NodeSpecUpdate};
pub use check::validate_graph;
pub use check_size::{edit_check_bytes, graph_check_bytes};
pub use dispatch::{NodeInput, NodePerformer, dispatch_policy};
pub use fan_out::{fan_out_result, instance_id};
pub use fold::fold_change;
pub use lease_sizing::{ExecutorCapacity, HeldNodes, NodeLeaseAllowance, NodeLeaseLimits, lease_allowance};
pub use mention::mentioned_by_edits;
pub use node_token::NodeToken;
pub use patch::build_patch;
pub use payload::{ExecutorAnswer, GraphEdit, NodeOutcome};
pub use placement::{
    DispatchRequirements, ExecutorCandidate, ExecutorChoice, choose_executor, explain_no_executor,
    meets_requirements,
};
pub use problems::InvalidGraph;
pub use read::{WrittenPatch, read_graph, read_patch};
pub use spec::{
    FanOut, GraphEdge, GraphOptions, GraphSpec, NodeAgent, NodeEdit, NodeId, NodeOnFailure, NodeOptions,
    NodeRetry, NodeSpec, NodeTask, SubExecution,
};
pub use state::{FanOutInstances, Graph, Node, NodeTally};
pub use status::NodeStatus;

pub(crate) use check_node::node_text_bytes;
pub(crate) use mention::find_mentions;
pub(crate) use patch::apply_with_known;
