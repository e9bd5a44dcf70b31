//! Assignments of items to people: the next one, the acts of its person, and the decisions of an operator.

use std::future::Future;
use std::pin::Pin;

use millstream_api::next_work::{NextWorkAnswer, NextWorkRequest, WorkForPerson};
use millstream_api::work_assignments::{
    AnswerSubmission, AssignmentActRequest, AssignmentCorrect, AssignmentReassign, AssignmentSkip,
    AssignmentStatus, FollowedAssignment, WorkAssignment,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::connect::Client;
use super::json::{self, JsonText};
use super::listing::{PagedList, PagedStream};
use super::transport::{ApiRequest, RepeatPolicy, path_segment};
use crate::client_error::ClientError;

/// Request for a person's next item. Set the queues, then await it: `None` when no item is available.
#[derive(Debug, Clone)]
#[must_use = "nothing is asked before it is awaited"]
pub struct NextWork {
    client: Client,
    request: NextWorkRequest,
}

/// A list of assignments, newest first. Set filters, then [`stream`](WorkAssignmentList::stream) it or await
/// all of them.
#[derive(Debug)]
pub struct WorkAssignmentList(PagedList<WorkAssignment>);

impl Client {
    /// Requests a person's next item. A current assignment comes first, so that a repeated request assigns
    /// nothing new.
    pub fn next_work(&self, person: impl Into<String>) -> NextWork {
        let request = NextWorkRequest { person: person.into(), queues: None, start: None };
        NextWork { client: self.clone(), request }
    }

    /// Starts the assignment: from now on the queue's time limit counts.
    pub async fn start_assignment(&self, id: &str, person: &str) -> Result<WorkAssignment, ClientError> {
        let body = AssignmentActRequest { person: person.to_owned() };
        self.on_assignment(id, "start", &body, RepeatPolicy::Always).await
    }

    /// Submits an answer. The server refuses an invalid one with 422 and every problem with its place; the
    /// assignment stays in progress.
    pub async fn submit_answer(
        &self,
        id: &str,
        person: &str,
        answer: impl Serialize,
    ) -> Result<WorkAssignment, ClientError> {
        let answer = JsonText::of_value(&answer);
        let body = AnswerSubmission { person: person.to_owned(), answer: answer.get()? };
        self.on_assignment(id, "submit", &body, RepeatPolicy::IfNothingHappened).await
    }

    /// Releases an item to other people; some queues require a reason.
    pub async fn skip_assignment(
        &self,
        id: &str,
        person: &str,
        reason: Option<&str>,
    ) -> Result<WorkAssignment, ClientError> {
        let body = AssignmentSkip { person: person.to_owned(), reason: reason.map(str::to_owned) };
        self.on_assignment(id, "skip", &body, RepeatPolicy::IfNothingHappened).await
    }

    /// Sends a heartbeat of the assignment: the answer has the new deadline.
    pub async fn heartbeat_assignment(&self, id: &str, person: &str) -> Result<WorkAssignment, ClientError> {
        let body = AssignmentActRequest { person: person.to_owned() };
        self.on_assignment(id, "heartbeat", &body, RepeatPolicy::Always).await
    }

    /// One assignment.
    pub async fn assignment(&self, id: &str) -> Result<WorkAssignment, ClientError> {
        self.send_request(&ApiRequest::get(assignment_path(id, ""))).await?.json()
    }

    /// Assignments of all people, newest first.
    pub fn assignments(&self) -> WorkAssignmentList {
        WorkAssignmentList(PagedList::new(self, ApiRequest::get("/v1/assignments")))
    }

    /// Revokes an open assignment, or reassigns one that expired or was skipped. Without `to`, the slot is
    /// open to any person. Not repeated when the answer is lost.
    pub async fn reassign_assignment(
        &self,
        id: &str,
        to: Option<&str>,
    ) -> Result<FollowedAssignment, ClientError> {
        let body = AssignmentReassign { to: to.map(str::to_owned) };
        self.on_assignment(id, "reassign", &body, RepeatPolicy::IfNothingHappened).await
    }

    /// Requests a correction of a completed assignment: a new assignment that refers to it, by default of the
    /// same person. Not repeated when the answer is lost.
    pub async fn correct_assignment(
        &self,
        id: &str,
        person: Option<&str>,
    ) -> Result<FollowedAssignment, ClientError> {
        let body = AssignmentCorrect { person: person.map(str::to_owned) };
        self.on_assignment(id, "correct", &body, RepeatPolicy::IfNothingHappened).await
    }

    async fn on_assignment<T: DeserializeOwned>(
        &self,
        id: &str,
        word: &str,
        body: &impl Serialize,
        repeat: RepeatPolicy,
    ) -> Result<T, ClientError> {
        let ask = ApiRequest::post(assignment_path(id, &format!("/{word}")), repeat);
        self.send_request(&ask.with_json(json::json_body(body)?)).await?.json()
    }
}

impl NextWork {
    /// Adds a queue to look in. By default: all queues of the person.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.request.queues.get_or_insert_default().push(queue.into());
        self
    }

    /// Starts the assignment at once.
    pub fn started(mut self) -> Self {
        self.request.start = Some(true);
        self
    }

    /// The same with the reason where no item is available.
    pub async fn or_reason(self) -> Result<NextWorkAnswer, ClientError> {
        let ask = ApiRequest::post("/v1/assignments/next", RepeatPolicy::Always)
            .with_json(json::json_body(&self.request)?);
        self.client.send_request(&ask).await?.json()
    }

    async fn request_work(self) -> Result<Option<WorkForPerson>, ClientError> {
        match self.or_reason().await? {
            NextWorkAnswer::Given(work) => Ok(Some(*work)),
            NextWorkAnswer::Nothing(_) => Ok(None),
        }
    }
}

impl IntoFuture for NextWork {
    type Output = Result<Option<WorkForPerson>, ClientError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.request_work())
    }
}

impl WorkAssignmentList {
    /// Only assignments in this queue.
    #[must_use]
    pub fn queue(self, name: &str) -> Self {
        Self(self.0.add_query("queue", name))
    }

    #[must_use]
    pub fn status(self, status: AssignmentStatus) -> Self {
        Self(self.0.add_query("status", status))
    }

    /// Only assignments of this person.
    #[must_use]
    pub fn person(self, person: &str) -> Self {
        Self(self.0.add_query("person", person))
    }

    /// Only assignments of this item.
    #[must_use]
    pub fn item(self, item_id: &str) -> Self {
        Self(self.0.add_query("item", item_id))
    }

    /// Number of assignments per page.
    #[must_use]
    pub fn page_size(self, items: usize) -> Self {
        Self(self.0.page_size(items))
    }

    /// A filter by the name of its query parameter: for a word that this client does not know.
    #[must_use]
    pub fn filter(self, name: &'static str, value: &str) -> Self {
        Self(self.0.add_query(name, value))
    }

    pub fn stream(self) -> PagedStream<WorkAssignment> {
        self.0.stream()
    }
}

impl IntoFuture for WorkAssignmentList {
    type Output = Result<Vec<WorkAssignment>, ClientError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.0.all())
    }
}

fn assignment_path(id: &str, rest: &str) -> String {
    format!("/v1/assignments/{}{rest}", path_segment(id))
}
