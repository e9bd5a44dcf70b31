//! Incidents: failures that wait for a person, looked at and decided.

use std::future::Future;
use std::pin::Pin;

use millstream_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::answer::ActionStatus;
use super::connect::Client;
use super::error::ClientError;
use super::events::reason;
use super::json::{self, Json};
use super::listing::{List, Listing};
use super::transport::{Ask, Repeat, segment};

/// A failure that a person has to decide about. While an execution has one it is paused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Incident {
    pub incident_id: String,
    pub execution_id: String,
    pub definition: String,
    pub version: i32,
    pub event_id: String,
    /// None: the event itself could not be decided.
    pub action: Option<String>,
    /// The transition of the action.
    pub seq: Option<i64>,
    /// The kind of error: a word of the engine (`network`, `timeout`, `status`, …) or of your own code.
    pub class: String,
    /// The same for the same trouble: definition, action and class.
    pub fingerprint: String,
    pub reason: String,
    pub opened_at: Timestamp,
    /// None while it is open.
    pub resolved: Option<Resolved>,
}

impl Incident {
    pub const fn is_open(&self) -> bool {
        self.resolved.is_none()
    }
}

/// What was decided about an incident, by whom and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Resolved {
    /// `retry`, `retry_with_input`, `skip`, `fail`, `cancel` or `ended`.
    pub resolution: String,
    pub actor: Option<String>,
    pub reason: Option<String>,
    pub at: Timestamp,
}

/// An incident with where its action stands now. All of the latter is `None` for an event that could not be decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct IncidentDetail {
    #[serde(flatten)]
    pub incident: Incident,
    /// What its attempts carry as their idempotency key.
    pub key: Option<String>,
    /// How often somebody gave it another input.
    pub revision: Option<i32>,
    pub action_status: Option<ActionStatus>,
    pub attempts: Option<i32>,
    /// The input, secrets left out: edit it and give it to [`Client::retry_incident_with_input`].
    pub input: Option<Value>,
    pub error: Option<Value>,
    pub progress: Option<Value>,
}

/// Open incidents of the same trouble.
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
    /// The newest of them.
    pub sample: Incident,
}

/// A decision that is recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct IncidentResolved {
    pub incident_id: String,
    pub execution_id: String,
    pub resolution: String,
    /// Of a retry: what the next attempts carry as their idempotency key.
    #[serde(default)]
    pub key: Option<String>,
}

/// What a decision about a group did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GroupResolved {
    /// So many were decided by this call.
    pub resolved: u64,
    /// So many are open now, those that failed again meanwhile included.
    pub remaining: u64,
}

/// A list of incidents, newest first. Say which ones, then [`stream`](Incidents::stream) it or await all of them.
#[derive(Debug)]
pub struct Incidents(List<Incident>);

#[derive(Debug, Serialize)]
struct Edited<'a> {
    input: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct Skipped<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

/// Decisions need a key with the role `admin`. They are not repeated when an answer is lost: a repeat would be refused
/// because the first one did it. Reasons are recorded with who decided.
impl Client {
    /// Incidents, newest first: open and resolved, of all executions, unless said.
    pub fn incidents(&self) -> Incidents {
        Incidents(List::new(self, Ask::get("/v1/incidents")))
    }

    /// Open incidents by what they have in common, the largest groups first; at most 500.
    pub async fn incident_groups(&self) -> Result<Vec<IncidentGroup>, ClientError> {
        List::new(self, Ask::get("/v1/incidents/groups")).page_size(500).all().await
    }

    /// One incident, with the input that can be edited.
    pub async fn incident(&self, incident_id: &str) -> Result<IncidentDetail, ClientError> {
        self.ask(&Ask::get(format!("/v1/incidents/{}", segment(incident_id)))).await?.json()
    }

    /// Tries it again, under the same key.
    pub async fn retry_incident(
        &self,
        incident_id: &str,
        why: Option<&str>,
    ) -> Result<IncidentResolved, ClientError> {
        self.decide(incident_id, "retry", reason(why)?).await
    }

    /// Tries it again with another input, which is another piece of work under another key. The whole input is given,
    /// as [`IncidentDetail::input`] has it; its kind cannot be changed.
    pub async fn retry_incident_with_input(
        &self,
        incident_id: &str,
        input: &impl Serialize,
        why: Option<&str>,
    ) -> Result<IncidentResolved, ClientError> {
        let input = Json::of(input);
        let body = json::body(&Edited { input: input.get()?, reason: why })?;
        self.decide(incident_id, "retry", body).await
    }

    /// Goes on as if the action had succeeded with this result.
    pub async fn skip_incident(
        &self,
        incident_id: &str,
        result: &impl Serialize,
        why: Option<&str>,
    ) -> Result<IncidentResolved, ClientError> {
        let result = Json::of(result);
        let body = json::body(&Skipped { result: Some(result.get()?), reason: why })?;
        self.decide(incident_id, "skip", body).await
    }

    /// Goes on without an event that could not be decided: it is rejected.
    pub async fn skip_dead_event(
        &self,
        incident_id: &str,
        why: Option<&str>,
    ) -> Result<IncidentResolved, ClientError> {
        let body = json::body(&Skipped { result: None, reason: why })?;
        self.decide(incident_id, "skip", body).await
    }

    /// Ends the execution as failed.
    pub async fn fail_incident(
        &self,
        incident_id: &str,
        why: Option<&str>,
    ) -> Result<IncidentResolved, ClientError> {
        self.decide(incident_id, "fail", reason(why)?).await
    }

    /// Ends the execution as cancelled.
    pub async fn cancel_incident(
        &self,
        incident_id: &str,
        why: Option<&str>,
    ) -> Result<IncidentResolved, ClientError> {
        self.decide(incident_id, "cancel", reason(why)?).await
    }

    /// Tries everything of a group again, at most 10,000 in one call.
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

    async fn decide(&self, id: &str, word: &str, body: Vec<u8>) -> Result<IncidentResolved, ClientError> {
        let path = format!("/v1/incidents/{}/{word}", segment(id));
        self.ask(&Ask::post(path, Repeat::IfNothingHappened).json(body)).await?.json()
    }

    async fn decide_group(
        &self,
        fingerprint: &str,
        word: &str,
        why: Option<&str>,
    ) -> Result<GroupResolved, ClientError> {
        let path = format!("/v1/incidents/groups/{}/{word}", segment(fingerprint));
        self.ask(&Ask::post(path, Repeat::IfNothingHappened).json(reason(why)?)).await?.json()
    }
}

impl Incidents {
    /// Only those that nobody has decided.
    #[must_use]
    pub fn open(self) -> Self {
        Self(self.0.query("status", "open"))
    }

    /// Only those that are decided.
    #[must_use]
    pub fn resolved(self) -> Self {
        Self(self.0.query("status", "resolved"))
    }

    /// Only of one group.
    #[must_use]
    pub fn fingerprint(self, fingerprint: &str) -> Self {
        Self(self.0.query("fingerprint", fingerprint))
    }

    /// Only of this execution.
    #[must_use]
    pub fn execution(self, id: &str) -> Self {
        Self(self.0.query("execution_id", id))
    }

    #[must_use]
    pub fn definition(self, name: &str) -> Self {
        Self(self.0.query("definition", name))
    }

    /// How many are asked for at a time.
    #[must_use]
    pub fn page_size(self, items: usize) -> Self {
        Self(self.0.page_size(items))
    }

    pub fn stream(self) -> Listing<Incident> {
        self.0.stream()
    }
}

impl IntoFuture for Incidents {
    type Output = Result<Vec<Incident>, ClientError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.0.all())
    }
}
