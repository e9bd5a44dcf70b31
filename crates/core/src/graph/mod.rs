//! The second kind of program: a graph of nodes that others perform.
//!
//! An execution whose definition is `millstream.graph` has its program in its own log: seq 1 holds the graph.
//! Everything else is as with a machine: events are decided in order, a transition says what was decided,
//! `fold` makes the state of it, and what the world must do is an action of the transition, here the dispatch
//! of a node.

mod change;
mod dispatch;
pub mod limits;
mod payload;
mod spec;
mod state;
mod status;

pub use change::{Change, Created, Expansion, NodeChange, Patch, Updated};
pub use dispatch::{NodeInput, Work};
pub use payload::{Answer, Edit, NodeOutcome};
pub use spec::{
    Agent, Edge, FanOut, GraphOptions, GraphSpec, NodeEdit, NodeId, NodeOptions, NodeRetry, NodeSpec,
    OnFailure, SubExecution, Task,
};
pub use state::{Graph, Instances, Node, Tally};
pub use status::NodeStatus;
