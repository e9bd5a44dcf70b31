//! Work for people: the next item, and the actions of a person on it.

use std::future::Future;
use std::pin::Pin;

use millstream_model::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::connect::Client;
use super::json::{self, JsonText};
use super::responses::statuses;
use super::transport::{ApiRequest, RepeatPolicy, path_segment};
use crate::client_error::ClientError;

statuses! {
    /// Status of an assignment.
    AssignmentStatus in "snake_case" {
        /// Assigned, not started.
        Pending = "pending",
        InProgress = "in_progress",
        /// Final: a correction is another assignment.
        Completed = "completed",
        Expired = "expired",
        Skipped = "skipped",
    }
}

/// A person's current or past assignment of an item.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WorkAssignment {
    pub assignment_id: String,
    pub item_id: String,
    pub person: String,
    pub queue: String,
    pub status: AssignmentStatus,
    /// Deadline: of the start while it is pending, of the answer after that.
    #[serde(default)]
    pub deadline: Option<Timestamp>,
    /// How often the person was assigned this item, including this time.
    #[serde(default)]
    pub attempt: u32,
    #[serde(default)]
    pub answer: Value,
    #[serde(default)]
    pub skip_reason: Option<String>,
    /// The assignment that this one corrects.
    #[serde(default)]
    pub refers_to: Option<String>,
    pub created_at: Timestamp,
}

/// An item of work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WorkForPerson {
    pub assignment: WorkAssignment,
    /// The item as the server shows it.
    #[serde(default)]
    pub item: Value,
    /// Its content.
    #[serde(default)]
    pub payload: Value,
    /// The person already had it at the time of the request.
    #[serde(default)]
    pub already_assigned: bool,
}

/// Request for a person's next item. Set the queues, then await it: `None` when no item is available.
#[derive(Debug, Clone)]
#[must_use = "nothing is asked before it is awaited"]
pub struct NextWork {
    client: Client,
    person: String,
    queues: Vec<String>,
    start: bool,
}

impl Client {
    /// Requests a person's next item. A current assignment comes first, so that a repeated request assigns
    /// nothing new.
    pub fn next_work(&self, person: impl Into<String>) -> NextWork {
        NextWork { client: self.clone(), person: person.into(), queues: Vec::new(), start: false }
    }

    /// Starts the assignment: from now on the queue's time limit counts.
    pub async fn start_assignment(&self, id: &str, person: &str) -> Result<WorkAssignment, ClientError> {
        self.on_assignment(id, "start", &json!({ "person": person }), RepeatPolicy::Always).await
    }

    /// Submits an answer. The server refuses an invalid one with 422 and every problem with its place; the
    /// assignment stays in progress.
    pub async fn submit_answer(
        &self,
        id: &str,
        person: &str,
        answer: impl Serialize,
    ) -> Result<WorkAssignment, ClientError> {
        #[derive(Serialize)]
        struct SubmitAnswerBody<'a> {
            person: &'a str,
            answer: &'a serde_json::value::RawValue,
        }
        let answer = JsonText::of_value(&answer);
        let body = SubmitAnswerBody { person, answer: answer.get()? };
        self.on_assignment(id, "submit", &body, RepeatPolicy::IfNothingHappened).await
    }

    /// Releases an item to other people; some queues require a reason.
    pub async fn skip_assignment(
        &self,
        id: &str,
        person: &str,
        reason: Option<&str>,
    ) -> Result<WorkAssignment, ClientError> {
        let body = match reason {
            Some(reason) => json!({ "person": person, "reason": reason }),
            None => json!({ "person": person }),
        };
        self.on_assignment(id, "skip", &body, RepeatPolicy::IfNothingHappened).await
    }

    /// Sends a heartbeat of the assignment: the answer has the new deadline.
    pub async fn heartbeat_assignment(&self, id: &str, person: &str) -> Result<WorkAssignment, ClientError> {
        self.on_assignment(id, "heartbeat", &json!({ "person": person }), RepeatPolicy::Always).await
    }

    pub async fn assignment(&self, id: &str) -> Result<WorkAssignment, ClientError> {
        self.send_request(&ApiRequest::get(assignment_path(id, ""))).await?.json()
    }

    async fn on_assignment(
        &self,
        id: &str,
        word: &str,
        body: &impl Serialize,
        repeat: RepeatPolicy,
    ) -> Result<WorkAssignment, ClientError> {
        let ask = ApiRequest::post(assignment_path(id, &format!("/{word}")), repeat);
        self.send_request(&ask.with_json(json::json_body(body)?)).await?.json()
    }
}

impl NextWork {
    /// Adds a queue to look in. By default: all queues of the person.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queues.push(queue.into());
        self
    }

    /// Starts the assignment at once.
    pub fn started(mut self) -> Self {
        self.start = true;
        self
    }

    async fn request_work(self) -> Result<Option<WorkForPerson>, ClientError> {
        let mut body = json!({ "person": self.person });
        if !self.queues.is_empty() {
            body["queues"] = json!(self.queues);
        }
        if self.start {
            body["start"] = json!(true);
        }
        let ask =
            ApiRequest::post("/v1/assignments/next", RepeatPolicy::Always).with_json(json::json_body(&body)?);
        let answer = self.client.send_request(&ask).await?;
        if answer.json::<Value>()?["assignment"].is_null() {
            return Ok(None);
        }
        answer.json().map(Some)
    }
}

impl IntoFuture for NextWork {
    type Output = Result<Option<WorkForPerson>, ClientError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.request_work())
    }
}

fn assignment_path(id: &str, rest: &str) -> String {
    format!("/v1/assignments/{}{rest}", path_segment(id))
}
