//! Tasks, for a worker that is not linked to the engine: lease them, keep them, finish them.

use std::time::Duration;

use millstream_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::connect::Client;
use super::error::ClientError;
use super::json::{self, Json};
use super::transport::{Ask, Repeat, segment};

/// What a worker can do.
#[derive(Debug, Clone, Default, Serialize)]
pub struct TaskWish {
    types: Vec<String>,
    labels: Vec<String>,
    max: usize,
    wait: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    worker: Option<String>,
}

/// A task that is this worker's until its lease ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Task {
    /// The same on every attempt at the same input.
    pub key: String,
    /// Goes with every word about the task; void once the lease has passed on.
    pub token: i64,
    #[serde(rename = "type")]
    pub kind: String,
    pub labels: Vec<String>,
    pub execution_id: String,
    pub action: String,
    pub attempt: i32,
    /// When the attempt has to be over.
    pub deadline: Timestamp,
    /// Until when it is this worker's, without a sign of life.
    pub lease_until: Timestamp,
    /// How often it wants a sign of life, if it does.
    pub heartbeat_ms: Option<u64>,
    pub input: Value,
    /// What the attempt before this one told last.
    pub progress: Value,
}

/// The answer to a sign of life.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TaskHeld {
    pub lease_until: Timestamp,
    /// Nobody wants the outcome any more: the worker may stop.
    pub cancelled: bool,
}

/// What a failed attempt should lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ThenDo {
    /// Another attempt, as the definition's `retry` allows.
    Retry,
    /// Nothing: it failed for good.
    Fail,
    /// A person decides.
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

    /// The labels that the worker has; tasks that ask for others are not given to it.
    pub fn labels<T: Into<String>>(mut self, labels: impl IntoIterator<Item = T>) -> Self {
        self.labels = labels.into_iter().map(Into::into).collect();
        self
    }

    /// So many at once, at most 256.
    pub fn max(mut self, tasks: usize) -> Self {
        self.max = tasks;
        self
    }

    /// How long the server waits for a task, at most a minute.
    pub fn wait(mut self, longest: Duration) -> Self {
        self.wait = longest.as_secs().min(60);
        self
    }

    /// What the worker is called, for people who look.
    pub fn worker(mut self, name: impl Into<String>) -> Self {
        self.worker = Some(name.into());
        self
    }
}

impl Client {
    /// Takes tasks; none when nothing came in time. A lease whose answer is lost runs out by itself.
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

    /// Says that a task is being worked on; `progress` is kept for the next attempt.
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

    /// Finishes a task. 409 when the lease has passed on.
    pub async fn complete_task(&self, task: &Task, result: impl Serialize) -> Result<(), ClientError> {
        let result = Json::of(&result);
        let word = Word { result: Some(result.get()?), ..Word::of(task) };
        self.tell(task, "complete", &word, Repeat::IfNothingHappened).await.map(|_| ())
    }

    /// Gives up an attempt.
    pub async fn fail_task(&self, task: &Task, message: &str, then: ThenDo) -> Result<(), ClientError> {
        let word = Word { message: Some(message), then: Some(then), ..Word::of(task) };
        self.tell(task, "fail", &word, Repeat::IfNothingHappened).await.map(|_| ())
    }

    /// Why nobody performs an action, and who is connected, as the server says it.
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
