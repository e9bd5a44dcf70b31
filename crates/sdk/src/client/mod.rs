//! The HTTP API, typed.
//!
//! [`Client`] is the entry point of every call; calls with several options are builders that are awaited. The
//! responses are plain structs with the names of the API.

// Reading order: connect (the client), transport (one request with its retries), then one file per part of
// the API.
mod assignments;
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
mod graph_watch;
mod graphs;
mod health;
mod incidents;
mod item_stream;
mod items;
mod json;
mod keys;
mod listing;
mod people;
mod queues;
mod quotas;
mod retry;
mod run_acts;
mod run_watch;
mod runs;
mod send;
mod signals;
mod sse;
mod start;
mod stored_source;
mod tail;
mod tasks;
mod transport;

pub use crate::client_error::{ClientError, ClientSetting, ServerProblem};
pub use assignments::{NextWork, WorkAssignmentList};
pub use connect::{Client, ClientBuilder};
pub use event_batch::NewEvent;
pub use events::EventList;
pub use executions::ExecutionList;
pub use graph_edits::{EditGraph, GraphEditAnswer};
pub use graph_nodes::{NodeList, NodeProgress, NodeResult};
pub use graph_watch::{GraphEventStream, GraphMessage};
pub use graphs::{CreateGraph, GraphList};
pub use incidents::{GroupChoice, IncidentList};
pub use item_stream::{ImportNotice, ImportNoticeStream};
pub use items::WorkItemList;
pub use keys::ApiKeyList;
pub use listing::{PagedList, PagedStream};
pub use millstream_api::actions::{ActionStatus, ActionView};
pub use millstream_api::definitions::{DefinitionSource, DefinitionVersion};
pub use millstream_api::devices::{DeviceView, DeviceVitals, NewDevice, RunHeartbeatAnswer};
pub use millstream_api::events::{AcceptedEvent, Event, EventStatus};
pub use millstream_api::executions::{Execution, ExecutionStatus, ParentAction};
pub use millstream_api::executors::{ExecutorRegistration, ExecutorView, NewExecutor};
pub use millstream_api::graph_nodes::{GraphNode, GraphNodeDetail, NodeHeld, NodeLogEntry};
pub use millstream_api::graph_spec::{
    GraphNodeEdit, GraphNodeSpec, GraphSettings, NodeEdge, NodeExecution, NodeFanOut, NodeParent,
    NodePlacement, NodeRetrySettings, NodeSettings, NodeWork, ParentFailureReaction,
};
pub use millstream_api::graph_watch::{GraphEvent, GraphNotice, NodeSpecChange};
pub use millstream_api::graph_words::{GraphStatus, NodeOutcome, NodeStatus};
pub use millstream_api::graphs::{AppliedEdit, GraphEditAccepted, GraphSummary};
pub use millstream_api::history::{ExecutionTransition, Timer, TransitionGraphChange, TransitionNodeChange};
pub use millstream_api::incidents::{
    GroupDecision, GroupResolved, Incident, IncidentDetail, IncidentGroup, IncidentResolution,
    IncidentResolved, IncidentStatus, IncidentVerdict,
};
pub use millstream_api::item_import::{ImportReport, ItemProblem, NewWorkItem, RefusedItem};
pub use millstream_api::items::{
    ItemAgreement, ItemLogWord, ItemStatus, WorkItem, WorkItemDetail, WorkItemLogEntry,
};
pub use millstream_api::keys::{ApiKey, ApiKeyRole, ApiKeyRotation, ApiKeyStatus, IssuedApiKey, NewApiKey};
pub use millstream_api::new_run::NewRun;
pub use millstream_api::next_work::{NextWorkAnswer, NoWorkForPerson, WorkForPerson, WorkIdleReason};
pub use millstream_api::page::Page;
pub use millstream_api::people::PersonView;
pub use millstream_api::problem::{Problem, RequestFault};
pub use millstream_api::queue_stats::{ItemCounts, QueueStatsLine};
pub use millstream_api::queues::{
    AnswerCheck, EligiblePeople, NewWorkQueue, PerPersonLimits, QueueEscalation, QueueTime, WorkQueue,
    WorkQueueConfig, WorkState,
};
pub use millstream_api::quotas::{
    NewTenantQuota, QuotaAmount, QuotaName, QuotaSource, QuotaUsage, SourcedQuota, TenantQuota, TenantUsage,
    UsageScope,
};
pub use millstream_api::run_acts::RunActed;
pub use millstream_api::run_assignments::{RunAssignment, RunAssignments};
pub use millstream_api::run_log::{RunLogLine, RunLogWord, RunWhy};
pub use millstream_api::run_settings::{RunBackoff, RunOverrides, RunSettingsView};
pub use millstream_api::runs::{
    PastRunAssignment, RunAssignmentMode, RunDue, RunDueAction, RunFailure, RunFailureKind, RunLossReason,
    RunProgress, RunSeatSummary, RunStatus, RunSummary, SeatHolder, WaitingRunAction,
};
pub use millstream_api::signals::{DeliveredSignal, Signal, SignalAccepted, SignalStatus, WaitingSignal};
pub use millstream_api::status::{DependencyStatus, Health, Readiness, WorkerView};
pub use millstream_api::tasks::{
    AfterTaskFailure, ConnectedWorker, LeasedTask, TaskFailure, TaskHeld, TaskLeaseQuery, TaskReportOutcome,
    TaskSettled, TaskWait, TaskWhy,
};
pub use millstream_api::work_assignments::{AssignmentStatus, FollowedAssignment, WorkAssignment};
pub use millstream_model::document::SourceFormat;
pub use millstream_model::time::Timestamp;
pub use queues::QueueStatsQuery;
pub use retry::ClientRetry;
pub use run_acts::RunAct;
pub use run_watch::RunAssignmentStream;
pub use runs::RunList;
pub use send::{CancelExecution, SendEvent, SendOutcome};
pub use signals::SendSignal;
pub use start::{NewExecution, StartExecution};
pub use stored_source::StoredSource;
pub use tail::{TransitionMessage, TransitionStream};
