//! Incidents: failures that need an operator's decision.

use std::future::Future;
use std::pin::Pin;

use millstream_model::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::connect::Client;
use super::events::reason_body;
use super::json::{self, JsonText};
use super::listing::{PagedList, PagedStream};
use super::responses::ActionStatus;
use super::transport::{ApiRequest, RepeatPolicy, path_segment};
use crate::client_error::ClientError;

/// A failure that an operator has to resolve. An execution with an open incident is paused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Incident {
    pub incident_id: String,
    pub execution_id: String,
    pub definition: String,
    pub version: i32,
    pub event_id: String,
    /// Absent if the event itself could not be decided.
    pub action: Option<String>,
    /// The transition of the action.
    pub seq: Option<i64>,
    /// The error class: one of the engine (`network`, `timeout`, `status`, …) or of your own code.
    pub class: String,
    /// Groups incidents of the same cause: definition, action and class.
    pub fingerprint: String,
    pub reason: String,
    pub opened_at: Timestamp,
    /// Absent while it is open.
    pub resolved: Option<IncidentVerdict>,
}

impl Incident {
    pub const fn is_open(&self) -> bool {
        self.resolved.is_none()
    }
}

/// The decision about an incident, its author and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct IncidentVerdict {
    /// `retry`, `retry_with_input`, `skip`, `fail`, `cancel` or `ended`.
    pub resolution: String,
    pub actor: Option<String>,
    pub reason: Option<String>,
    pub at: Timestamp,
}

/// An incident with the current state of its action. That part is `None` for an event that could not be
/// decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct IncidentDetail {
    #[serde(flatten)]
    pub incident: Incident,
    /// The idempotency key of its attempts.
    pub key: Option<String>,
    /// How often an operator gave it another input.
    pub revision: Option<i32>,
    pub action_status: Option<ActionStatus>,
    pub attempts: Option<i32>,
    /// The input without secrets: edit it and pass it to [`Client::retry_incident_with_input`].
    pub input: Option<Value>,
    pub error: Option<Value>,
    pub progress: Option<Value>,
}

/// Open incidents of the same cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct IncidentGroup {
    pub fingerprint: String,
    pub definition: String,
    pub action: Option<String>,
    pub class: String,
    pub count: u64,
    pub first_seen: Timestamp,
    pub last_seen: Timestamp,
    /// The newest incident of the group.
    pub sample: Incident,
}

/// A recorded decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct IncidentResolved {
    pub incident_id: String,
    pub execution_id: String,
    pub resolution: String,
    /// For a retry: the idempotency key of the next attempts.
    #[serde(default)]
    pub key: Option<String>,
}

/// Effect of a decision about a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GroupResolved {
    /// Number of incidents resolved by this call.
    pub resolved: u64,
    /// Number of incidents open now, including those that failed again meanwhile.
    pub remaining: u64,
}

/// A list of incidents, newest first. Set filters, then [`stream`](IncidentList::stream) it or await all of
/// them.
#[derive(Debug)]
pub struct IncidentList(PagedList<Incident>);

#[derive(Debug, Serialize)]
struct RetryWithInputBody<'a> {
    input: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct SkipBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

/// Decisions need a key with the role `admin`. They are not repeated when an answer is lost, because the
/// server would refuse the repetition. Reasons are recorded with the author of the decision.
impl Client {
    /// Incidents, newest first: open and resolved, of all executions by default.
    pub fn incidents(&self) -> IncidentList {
        IncidentList(PagedList::new(self, ApiRequest::get("/v1/incidents")))
    }

    /// Open incidents grouped by cause, the largest groups first; at most 500.
    pub async fn incident_groups(&self) -> Result<Vec<IncidentGroup>, ClientError> {
        PagedList::new(self, ApiRequest::get("/v1/incidents/groups")).page_size(500).all().await
    }

    /// One incident, with its editable input.
    pub async fn incident(&self, incident_id: &str) -> Result<IncidentDetail, ClientError> {
        self.send_request(&ApiRequest::get(format!("/v1/incidents/{}", path_segment(incident_id))))
            .await?
            .json()
    }

    /// Retries the action under the same key.
    pub async fn retry_incident(
        &self,
        incident_id: &str,
        why: Option<&str>,
    ) -> Result<IncidentResolved, ClientError> {
        self.decide_incident(incident_id, "retry", reason_body(why)?).await
    }

    /// Retries the action with another input, which is a new unit of work under a new key. Pass the whole
    /// input, as in [`IncidentDetail::input`]; its kind cannot be changed.
    pub async fn retry_incident_with_input(
        &self,
        incident_id: &str,
        input: &impl Serialize,
        why: Option<&str>,
    ) -> Result<IncidentResolved, ClientError> {
        let input = JsonText::of_value(input);
        let body = json::json_body(&RetryWithInputBody { input: input.get()?, reason: why })?;
        self.decide_incident(incident_id, "retry", body).await
    }

    /// Continues as if the action had succeeded with this result.
    pub async fn skip_incident(
        &self,
        incident_id: &str,
        result: &impl Serialize,
        why: Option<&str>,
    ) -> Result<IncidentResolved, ClientError> {
        let result = JsonText::of_value(result);
        let body = json::json_body(&SkipBody { result: Some(result.get()?), reason: why })?;
        self.decide_incident(incident_id, "skip", body).await
    }

    /// Continues without an event that could not be decided: it is rejected.
    pub async fn skip_dead_event(
        &self,
        incident_id: &str,
        why: Option<&str>,
    ) -> Result<IncidentResolved, ClientError> {
        let body = json::json_body(&SkipBody { result: None, reason: why })?;
        self.decide_incident(incident_id, "skip", body).await
    }

    /// Ends the execution as failed.
    pub async fn fail_incident(
        &self,
        incident_id: &str,
        why: Option<&str>,
    ) -> Result<IncidentResolved, ClientError> {
        self.decide_incident(incident_id, "fail", reason_body(why)?).await
    }

    /// Ends the execution as cancelled.
    pub async fn cancel_incident(
        &self,
        incident_id: &str,
        why: Option<&str>,
    ) -> Result<IncidentResolved, ClientError> {
        self.decide_incident(incident_id, "cancel", reason_body(why)?).await
    }

    /// Retries all incidents of a group, at most 10,000 per call.
    pub async fn retry_incident_group(
        &self,
        fingerprint: &str,
        why: Option<&str>,
    ) -> Result<GroupResolved, ClientError> {
        self.decide_group(fingerprint, "retry", why).await
    }

    /// Ends every execution of a group as failed.
    pub async fn fail_incident_group(
        &self,
        fingerprint: &str,
        why: Option<&str>,
    ) -> Result<GroupResolved, ClientError> {
        self.decide_group(fingerprint, "fail", why).await
    }

    /// Ends every execution of a group as cancelled.
    pub async fn cancel_incident_group(
        &self,
        fingerprint: &str,
        why: Option<&str>,
    ) -> Result<GroupResolved, ClientError> {
        self.decide_group(fingerprint, "cancel", why).await
    }

    async fn decide_incident(
        &self,
        id: &str,
        word: &str,
        body: Vec<u8>,
    ) -> Result<IncidentResolved, ClientError> {
        let path = format!("/v1/incidents/{}/{word}", path_segment(id));
        self.send_request(&ApiRequest::post(path, RepeatPolicy::IfNothingHappened).with_json(body))
            .await?
            .json()
    }

    async fn decide_group(
        &self,
        fingerprint: &str,
        word: &str,
        why: Option<&str>,
    ) -> Result<GroupResolved, ClientError> {
        let path = format!("/v1/incidents/groups/{}/{word}", path_segment(fingerprint));
        self.send_request(
            &ApiRequest::post(path, RepeatPolicy::IfNothingHappened).with_json(reason_body(why)?),
        )
        .await?
        .json()
    }
}

impl IncidentList {
    /// Only open incidents.
    #[must_use]
    pub fn open(self) -> Self {
        Self(self.0.add_query("status", "open"))
    }

    /// Only resolved incidents.
    #[must_use]
    pub fn resolved(self) -> Self {
        Self(self.0.add_query("status", "resolved"))
    }

    /// Only incidents of one group.
    #[must_use]
    pub fn fingerprint(self, fingerprint: &str) -> Self {
        Self(self.0.add_query("fingerprint", fingerprint))
    }

    /// Only incidents of this execution.
    #[must_use]
    pub fn execution(self, id: &str) -> Self {
        Self(self.0.add_query("execution_id", id))
    }

    #[must_use]
    pub fn definition(self, name: &str) -> Self {
        Self(self.0.add_query("definition", name))
    }

    /// Number of incidents per page.
    #[must_use]
    pub fn page_size(self, items: usize) -> Self {
        Self(self.0.page_size(items))
    }

    pub fn stream(self) -> PagedStream<Incident> {
        self.0.stream()
    }
}

impl IntoFuture for IncidentList {
    type Output = Result<Vec<Incident>, ClientError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.0.all())
    }
}
