//! The HTTP API, typed.
//!
//! [`Client`] is the entry point of every call; calls with several options are builders that are awaited. The
//! responses are plain structs with the names of the API.

// Reading order: connect (the client), transport (one request with its retries), then one file per part of
// the API.
mod answer;
mod connect;
mod definitions;
mod devices;
mod error;
mod events;
mod executions;
mod executors;
mod follow;
mod graph_answer;
mod graph_edits;
mod graph_nodes;
mod graph_watch;
mod graphs;
mod health;
mod incidents;
mod json;
mod listing;
mod many;
mod people;
mod retry;
mod run_acts;
mod runs;
mod send;
mod signals;
mod sse;
mod start;
mod tail;
mod tasks;
mod transport;

pub use answer::{
    Accepted, ActionStatus, ActionView, Definition, DefinitionVersion, Event, EventStatus, Execution,
    ExecutionStatus, Health, Parent, Readiness, SignalStatus, Timer, Transition, WorkerView,
};
pub use connect::{Client, ClientBuilder};
pub use devices::{DeviceView, NewDevice, RunHeard, Vitals};
pub use error::{ClientError, Fault, Problem};
pub use events::Events;
pub use executions::Executions;
pub use executors::{ExecutorView, NewExecutor, Registered};
pub use graph_answer::{Graph, GraphNode, GraphStatus, NodeLog, NodeStatus};
pub use graph_edits::{Edited, Editing};
pub use graph_nodes::{NodeHeld, NodeProgress, NodeResult, Nodes};
pub use graph_watch::{GraphEvent, GraphNotice, Watch};
pub use graphs::{Creating, Graphs};
pub use incidents::{
    GroupResolved, Incident, IncidentDetail, IncidentGroup, IncidentResolved, Incidents, Resolved,
};
pub use listing::{List, Listing};
pub use many::NewEvent;
pub use millstream_core::time::Timestamp;
pub use people::{Assignment, AssignmentStatus, NextWork, Work};
pub use retry::Retry;
pub use run_acts::{RunAct, RunActed, RunAssignment, RunAssignments, RunProgress};
pub use runs::{NewRun, Previous, Run, RunStatus, Runs, Seat};
pub use send::{Cancelling, Sending, Sent};
pub use signals::{Signal, SignalAccepted, Signalling};
pub use start::{NewExecution, Starting};
pub use tail::Tail;
pub use tasks::{Task, TaskHeld, TaskWish, ThenDo};
