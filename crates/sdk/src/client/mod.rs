//! The HTTP API, typed.
//!
//! [`Client`] is the entry point of every call; calls with several options are builders that are awaited. The
//! responses are plain structs with the names of the API.

// Reading order: connect (the client), transport (one request with its retries), then one file per part of
// the API.
mod connect;
mod definitions;
mod devices;
mod event_batch;
mod event_stream;
mod events;
mod executions;
mod executors;
mod graph_edits;
mod graph_nodes;
mod graph_responses;
mod graph_watch;
mod graphs;
mod health;
mod incidents;
mod json;
mod listing;
mod people;
mod responses;
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

pub use crate::client_error::{ClientError, ServerProblem};
pub use connect::{Client, ClientBuilder};
pub use devices::{DeviceView, DeviceVitals, NewDevice, RunHeartbeatAnswer};
pub use event_batch::NewEvent;
pub use events::EventList;
pub use executions::ExecutionList;
pub use executors::{ExecutorRegistration, ExecutorView, NewExecutor};
pub use graph_edits::{AppliedEdit, EditGraph};
pub use graph_nodes::{NodeHeld, NodeList, NodeProgress, NodeResult};
pub use graph_responses::{GraphNode, GraphStatus, GraphSummary, NodeLogEntry, NodeStatus};
pub use graph_watch::{GraphEvent, GraphEventStream, GraphNotice};
pub use graphs::{CreateGraph, GraphList};
pub use incidents::IncidentList;
pub use listing::{PagedList, PagedStream};
pub use millstream_api::actions::{ActionStatus, ActionView};
pub use millstream_api::definitions::{DefinitionSource, DefinitionVersion};
pub use millstream_api::events::{AcceptedEvent, Event, EventStatus};
pub use millstream_api::executions::{Execution, ExecutionStatus, ParentAction};
pub use millstream_api::history::{ExecutionTransition, Timer, TransitionGraphChange, TransitionNodeChange};
pub use millstream_api::incidents::{
    GroupResolved, Incident, IncidentDetail, IncidentGroup, IncidentResolution, IncidentResolved,
    IncidentStatus, IncidentVerdict,
};
pub use millstream_api::problem::{Problem, RefusingQuota, RequestFault, SeatHolder};
pub use millstream_api::signals::{DeliveredSignal, Signal, SignalAccepted, SignalStatus, WaitingSignal};
pub use millstream_api::status::{DependencyStatus, Health, Readiness, WorkerView};
pub use millstream_api::tasks::{
    AfterTaskFailure, ConnectedWorker, LeasedTask, TaskFailure, TaskHeld, TaskLeaseQuery, TaskReportOutcome,
    TaskSettled, TaskWait, TaskWhy,
};
pub use millstream_model::time::Timestamp;
pub use people::{AssignmentStatus, NextWork, WorkAssignment, WorkForPerson};
pub use retry::ClientRetry;
pub use run_acts::{RunAct, RunActed, RunAssignment, RunAssignments, RunProgress};
pub use runs::{NewRun, PastRunAssignment, RunList, RunSeatSummary, RunStatus, RunSummary};
pub use send::{CancelExecution, SendEvent, SendOutcome};
pub use signals::SendSignal;
pub use start::{NewExecution, StartExecution};
pub use tail::TransitionStream;
