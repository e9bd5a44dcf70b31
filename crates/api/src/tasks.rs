//! Tasks for external workers: leased, kept, finished, explained.

use millstream_model::time::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::actions::ActionStatus;
use crate::events::EventStatus;
use crate::scalar;
use crate::words::api_words;

/// Request for tasks: the types and labels of the worker.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "LeaseTasks", deny_unknown_fields)]
pub struct TaskLeaseQuery {
    /// The types of tasks that the worker performs.
    #[schemars(with = "Vec<scalar::Name>", length(min = 1, max = 64))]
    pub types: Vec<String>,
    /// Tasks that require other labels are not leased to the worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<scalar::Name>>", length(max = 64))]
    pub labels: Option<Vec<String>>,
    /// Maximum number of tasks; default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 256))]
    pub max: Option<usize>,
    /// How long to wait for a task: seconds, or a duration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<TaskWait>,
    /// The name that the worker gives itself; shown to people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[A-Za-z0-9_.:-]{1,160}$"))]
    pub worker: Option<String>,
}

/// Seconds, or a duration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub enum TaskWait {
    Seconds(#[schemars(range(min = 0, max = 60))] u64),
    Duration(#[schemars(regex(pattern = r"^([1-9]|[1-5][0-9]|60)s$"))] String),
}

/// Tasks leased to one worker; empty when the wait timed out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Tasks", deny_unknown_fields)]
pub struct LeasedTasks<J = Value> {
    pub tasks: Vec<LeasedTask<J>>,
}

/// A task leased by this worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Task", deny_unknown_fields)]
pub struct LeasedTask<J = Value> {
    /// The same for every attempt with the same input.
    pub key: String,
    /// Fencing token, part of every call about the task; invalid once the lease has passed on.
    pub token: i64,
    #[serde(rename = "type")]
    #[schemars(with = "scalar::Name")]
    pub kind: String,
    #[schemars(with = "Vec<scalar::Name>")]
    pub labels: Vec<String>,
    #[schemars(with = "scalar::ExecutionId")]
    pub execution_id: String,
    #[schemars(with = "scalar::Name")]
    pub action: String,
    /// The number of the attempt, from 1 on.
    pub attempt: i32,
    /// The deadline of the attempt.
    #[schemars(with = "scalar::Time")]
    pub deadline: Timestamp,
    /// When the lease expires without a heartbeat.
    #[schemars(with = "scalar::Time")]
    pub lease_until: Timestamp,
    /// The required period of heartbeats, if there is one.
    pub heartbeat_ms: Option<u64>,
    /// Any JSON.
    pub input: J,
    /// Any JSON: the latest progress of the previous attempt.
    pub progress: J,
}

/// A heartbeat for a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TaskHeartbeat", deny_unknown_fields)]
pub struct TaskHeartbeat<J = Value> {
    /// The token that came with the task.
    pub token: i64,
    /// Any JSON; kept for the next attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<J>,
}

/// The lease of a task is still held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct TaskHeld {
    #[schemars(with = "scalar::Time")]
    pub lease_until: Timestamp,
    /// The execution was cancelled: the worker may stop.
    pub cancelled: bool,
}

/// The result of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TaskResult", deny_unknown_fields)]
pub struct TaskResult<J = Value> {
    /// The token that came with the task.
    pub token: i64,
    /// Any JSON of at most 192 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<J>,
}

/// The result of one task of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TaskResultItem", deny_unknown_fields)]
pub struct TaskResultItem<J = Value> {
    pub key: String,
    /// The token that came with the task.
    pub token: i64,
    /// Any JSON of at most 192 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<J>,
}

/// The results of many tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(rename = "TaskResultBatch")]
pub struct TaskResults<J = Value>(#[schemars(length(max = 1000))] pub Vec<TaskResultItem<J>>);

api_words! {
    /// Consequence of a failed attempt at a task.
    AfterTaskFailure {
        /// Another attempt, as the definition's `retry` allows.
        Retry = "retry",
        /// Permanent failure.
        Fail = "fail",
        /// An operator decides.
        Pause = "pause",
    }
}

/// A failed attempt at a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct TaskFailure {
    /// The token that came with the task.
    pub token: i64,
    pub message: String,
    /// The class of the error; default `failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<scalar::Name>")]
    pub class: Option<String>,
    /// Default: retry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub then: Option<AfterTaskFailure>,
    /// The delay before the next attempt; default: the backoff of the definition.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<scalar::Duration>")]
    pub retry_after: Option<String>,
}

api_words! {
    /// The outcome of a report about a task.
    TaskReportOutcome {
        Completed = "completed",
        /// The action will be retried.
        Retried = "retried",
        /// The definition handles the failure.
        Failed = "failed",
        /// An operator decides.
        Incident = "incident",
        /// The execution has ended: the action is not retried.
        Cancelled = "cancelled",
    }
}

/// A recorded report about a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct TaskSettled {
    pub outcome: TaskReportOutcome,
    /// The status of the event that called the action.
    pub event_status: EventStatus,
}

/// Why an action is not being performed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct TaskWhy {
    pub key: String,
    pub status: ActionStatus,
    pub attempts: i32,
    /// The reason, in words.
    pub reason: String,
    pub connected: Vec<ConnectedWorker>,
}

/// A connected worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ConnectedWorker {
    pub worker: String,
    /// Of an external worker: the types that it asks for.
    #[schemars(with = "Vec<scalar::Name>")]
    pub types: Vec<String>,
    /// Of an external worker.
    #[schemars(with = "Vec<scalar::Name>")]
    pub labels: Vec<String>,
    /// Of a worker of the engine.
    #[schemars(with = "Vec<scalar::Name>")]
    pub functions: Vec<String>,
    #[schemars(with = "scalar::Time")]
    pub seen_at: Timestamp,
    /// Why this worker cannot take the action; null when it can.
    pub missing: Option<String>,
}

impl TaskLeaseQuery {
    /// One task of one of these types, without waiting.
    pub fn of<T: Into<String>>(types: impl IntoIterator<Item = T>) -> Self {
        Self { types: types.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Labels of the worker; tasks that require other labels are not leased to it.
    #[must_use]
    pub fn labels<T: Into<String>>(mut self, labels: impl IntoIterator<Item = T>) -> Self {
        self.labels = Some(labels.into_iter().map(Into::into).collect());
        self
    }

    /// Maximum number of tasks, at most 256.
    #[must_use]
    pub fn max(mut self, tasks: usize) -> Self {
        self.max = Some(tasks);
        self
    }

    /// Long poll: how long the server waits for a task, at most a minute.
    #[must_use]
    pub fn wait(mut self, longest: std::time::Duration) -> Self {
        self.wait = Some(TaskWait::Seconds(longest.as_secs().min(60)));
        self
    }

    /// Display name of the worker.
    #[must_use]
    pub fn worker(mut self, name: impl Into<String>) -> Self {
        self.worker = Some(name.into());
        self
    }
}
