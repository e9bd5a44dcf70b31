//! Tasks for external workers, which are not linked to the engine: lease, heartbeat, complete, fail.

use std::time::Duration;

use millstream_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::connect::Client;
use super::error::ClientError;
use super::json::{self, Json};
use super::transport::{Ask, Repeat, segment};

/// Request for tasks: the worker's types and labels.
#[derive(Debug, Clone, Default, Serialize)]
pub struct TaskWish {
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
pub struct Task {
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
pub enum ThenDo {
    /// Another attempt, as the definition's `retry` allows.
    Retry,
    /// Permanent failure.
    Fail,
    /// An operator decides.
    Pause,
}

#[derive(Serialize)]
struct Word<'a> {
    token: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    then: Option<ThenDo>,
}

impl Word<'_> {
    fn of(task: &Task) -> Self {
        Self { token: task.token, progress: None, result: None, message: None, then: None }
    }
}

impl TaskWish {
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
    pub async fn lease_tasks(&self, wish: &TaskWish) -> Result<Vec<Task>, ClientError> {
        #[derive(Deserialize)]
        struct Tasks {
            tasks: Vec<Task>,
        }
        let ask = Ask::post("/v1/tasks/lease", Repeat::IfNothingHappened)
            .json(json::body(wish)?)
            .waiting(Duration::from_secs(wish.wait));
        Ok(self.ask(&ask).await?.json::<Tasks>()?.tasks)
    }

    /// Sends a heartbeat for a task; `progress` is stored for the next attempt.
    pub async fn heartbeat_task(
        &self,
        task: &Task,
        progress: Option<&Value>,
    ) -> Result<TaskHeld, ClientError> {
        let progress = progress.map(Json::of);
        let progress = json::get(progress.as_ref())?;
        let word = Word { progress, ..Word::of(task) };
        self.tell(task, "heartbeat", &word, Repeat::Always).await?.json()
    }

    /// Completes a task. 409 when the lease has passed on.
    pub async fn complete_task(&self, task: &Task, result: impl Serialize) -> Result<(), ClientError> {
        let result = Json::of(&result);
        let word = Word { result: Some(result.get()?), ..Word::of(task) };
        self.tell(task, "complete", &word, Repeat::IfNothingHappened).await.map(|_| ())
    }

    /// Fails an attempt.
    pub async fn fail_task(&self, task: &Task, message: &str, then: ThenDo) -> Result<(), ClientError> {
        let word = Word { message: Some(message), then: Some(then), ..Word::of(task) };
        self.tell(task, "fail", &word, Repeat::IfNothingHappened).await.map(|_| ())
    }

    /// Explains why an action is not being performed, and which workers are connected, as reported by the
    /// server.
    pub async fn why(&self, key: &str) -> Result<Value, ClientError> {
        self.ask(&Ask::get(format!("/v1/tasks/{}/why", segment(key)))).await?.json()
    }

    async fn tell(
        &self,
        task: &Task,
        act: &str,
        word: &Word<'_>,
        repeat: Repeat,
    ) -> Result<super::transport::Answer, ClientError> {
        let path = format!("/v1/tasks/{}/{act}", segment(&task.key));
        self.ask(&Ask::post(path, repeat).json(json::body(word)?)).await
    }
}
