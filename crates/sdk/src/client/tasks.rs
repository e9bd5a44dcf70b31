//! Tasks for external workers, which are not linked to the engine: lease, heartbeat, complete, fail.

use std::time::Duration;

use millstream_model::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::connect::Client;
use super::json::{self, JsonText};
use super::transport::{ApiRequest, RepeatPolicy, path_segment};
use crate::client_error::ClientError;

/// Request for tasks: the worker's types and labels.
#[derive(Debug, Clone, Default, Serialize)]
pub struct TaskLeaseQuery {
    types: Vec<String>,
    labels: Vec<String>,
    max: usize,
    wait: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    worker: Option<String>,
}

/// A task leased by this worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LeasedTask {
    /// The same for every attempt with the same input.
    pub key: String,
    /// Fencing token, part of every call about the task; invalid once the lease has passed on.
    pub token: i64,
    #[serde(rename = "type")]
    pub kind: String,
    pub labels: Vec<String>,
    pub execution_id: String,
    pub action: String,
    pub attempt: i32,
    /// Deadline of the attempt.
    pub deadline: Timestamp,
    /// End of the lease without a heartbeat.
    pub lease_until: Timestamp,
    /// Required heartbeat period, if any.
    pub heartbeat_ms: Option<u64>,
    pub input: Value,
    /// The last progress of the previous attempt.
    pub progress: Value,
}

/// The server's answer to a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TaskHeld {
    pub lease_until: Timestamp,
    /// The outcome is no longer needed: the worker may stop.
    pub cancelled: bool,
}

/// Consequence of a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterTaskFailure {
    /// Another attempt, as the definition's `retry` allows.
    Retry,
    /// Permanent failure.
    Fail,
    /// An operator decides.
    Pause,
}

#[derive(Serialize)]
struct TaskReportBody<'a> {
    token: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    then: Option<AfterTaskFailure>,
}

impl TaskReportBody<'_> {
    fn of_task(task: &LeasedTask) -> Self {
        Self { token: task.token, progress: None, result: None, message: None, then: None }
    }
}

impl TaskLeaseQuery {
    /// One task of one of these types, without waiting.
    pub fn of<T: Into<String>>(types: impl IntoIterator<Item = T>) -> Self {
        let types = types.into_iter().map(Into::into).collect();
        Self { types, labels: Vec::new(), max: 1, wait: 0, worker: None }
    }

    /// Labels of the worker; tasks that require other labels are not leased to it.
    pub fn labels<T: Into<String>>(mut self, labels: impl IntoIterator<Item = T>) -> Self {
        self.labels = labels.into_iter().map(Into::into).collect();
        self
    }

    /// Maximum number of tasks, at most 256.
    pub fn max(mut self, tasks: usize) -> Self {
        self.max = tasks;
        self
    }

    /// Long poll: how long the server waits for a task, at most a minute.
    pub fn wait(mut self, longest: Duration) -> Self {
        self.wait = longest.as_secs().min(60);
        self
    }

    /// Display name of the worker.
    pub fn worker(mut self, name: impl Into<String>) -> Self {
        self.worker = Some(name.into());
        self
    }
}

impl Client {
    /// Leases tasks; an empty list after a timeout. A lease whose answer is lost runs out by itself.
    pub async fn lease_tasks(&self, wish: &TaskLeaseQuery) -> Result<Vec<LeasedTask>, ClientError> {
        #[derive(Deserialize)]
        struct LeasedTaskList {
            tasks: Vec<LeasedTask>,
        }
        let ask = ApiRequest::post("/v1/tasks/lease", RepeatPolicy::IfNothingHappened)
            .with_json(json::json_body(wish)?)
            .with_server_wait(Duration::from_secs(wish.wait));
        Ok(self.send_request(&ask).await?.json::<LeasedTaskList>()?.tasks)
    }

    /// Sends a heartbeat for a task; `progress` is stored for the next attempt.
    pub async fn heartbeat_task(
        &self,
        task: &LeasedTask,
        progress: Option<&Value>,
    ) -> Result<TaskHeld, ClientError> {
        let progress = progress.map(JsonText::of_value);
        let progress = json::get(progress.as_ref())?;
        let word = TaskReportBody { progress, ..TaskReportBody::of_task(task) };
        self.send_task_report(task, "heartbeat", &word, RepeatPolicy::Always).await?.json()
    }

    /// Completes a task. 409 when the lease has passed on.
    pub async fn complete_task(&self, task: &LeasedTask, result: impl Serialize) -> Result<(), ClientError> {
        let result = JsonText::of_value(&result);
        let word = TaskReportBody { result: Some(result.get()?), ..TaskReportBody::of_task(task) };
        self.send_task_report(task, "complete", &word, RepeatPolicy::IfNothingHappened).await.map(|_| ())
    }

    /// Fails an attempt.
    pub async fn fail_task(
        &self,
        task: &LeasedTask,
        message: &str,
        then: AfterTaskFailure,
    ) -> Result<(), ClientError> {
        let word =
            TaskReportBody { message: Some(message), then: Some(then), ..TaskReportBody::of_task(task) };
        self.send_task_report(task, "fail", &word, RepeatPolicy::IfNothingHappened).await.map(|_| ())
    }

    /// Explains why an action is not being performed, and which workers are connected, as reported by the
    /// server.
    pub async fn why(&self, key: &str) -> Result<Value, ClientError> {
        self.send_request(&ApiRequest::get(format!("/v1/tasks/{}/why", path_segment(key)))).await?.json()
    }

    async fn send_task_report(
        &self,
        task: &LeasedTask,
        act: &str,
        word: &TaskReportBody<'_>,
        repeat: RepeatPolicy,
    ) -> Result<super::transport::ApiResponse, ClientError> {
        let path = format!("/v1/tasks/{}/{act}", path_segment(&task.key));
        self.send_request(&ApiRequest::post(path, repeat).with_json(json::json_body(word)?)).await
    }
}
