//! Incidents: failures that need an operator's decision.

use std::future::Future;
use std::pin::Pin;

use millstream_api::incidents::{
    GroupDecision, GroupResolved, Incident, IncidentDetail, IncidentEnding, IncidentGroup, IncidentResolved,
    IncidentRetry, IncidentSkip,
};
use serde::Serialize;
use serde_json::Value;

use super::connect::Client;
use super::json::{self, JsonText};
use super::listing::{PagedList, PagedStream};
use super::transport::{ApiRequest, RepeatPolicy, path_segment};
use crate::client_error::ClientError;

/// A list of incidents, newest first. Set filters, then [`stream`](IncidentList::stream) it or await all of
/// them.
#[derive(Debug)]
pub struct IncidentList(PagedList<Incident>);

/// A decision that applies to a group of incidents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupChoice {
    Retry,
    Fail,
    Cancel,
}

impl GroupChoice {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Fail => "fail",
            Self::Cancel => "cancel",
        }
    }
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

    /// The same, at most this many groups.
    pub async fn largest_incident_groups(&self, limit: usize) -> Result<Vec<IncidentGroup>, ClientError> {
        PagedList::new(self, ApiRequest::get("/v1/incidents/groups")).page_size(limit).all().await
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
        let body = IncidentRetry::<Value> { input: None, reason: why.map(str::to_owned) };
        self.decide_incident(incident_id, "retry", &body).await
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
        let body = IncidentRetry { input: Some(input.get()?), reason: why.map(str::to_owned) };
        self.decide_incident(incident_id, "retry", &body).await
    }

    /// Continues as if the action had succeeded with this result.
    pub async fn skip_incident(
        &self,
        incident_id: &str,
        result: &impl Serialize,
        why: Option<&str>,
    ) -> Result<IncidentResolved, ClientError> {
        let result = JsonText::of_value(result);
        let body = IncidentSkip { result: Some(result.get()?), reason: why.map(str::to_owned) };
        self.decide_incident(incident_id, "skip", &body).await
    }

    /// Continues without an event that could not be decided: it is rejected.
    pub async fn skip_dead_event(
        &self,
        incident_id: &str,
        why: Option<&str>,
    ) -> Result<IncidentResolved, ClientError> {
        let body = IncidentSkip::<Value> { result: None, reason: why.map(str::to_owned) };
        self.decide_incident(incident_id, "skip", &body).await
    }

    /// Ends the execution as failed.
    pub async fn fail_incident(
        &self,
        incident_id: &str,
        why: Option<&str>,
    ) -> Result<IncidentResolved, ClientError> {
        let body = IncidentEnding { reason: why.map(str::to_owned) };
        self.decide_incident(incident_id, "fail", &body).await
    }

    /// Ends the execution as cancelled.
    pub async fn cancel_incident(
        &self,
        incident_id: &str,
        why: Option<&str>,
    ) -> Result<IncidentResolved, ClientError> {
        let body = IncidentEnding { reason: why.map(str::to_owned) };
        self.decide_incident(incident_id, "cancel", &body).await
    }

    /// Retries all incidents of a group, at most 10,000 per call.
    pub async fn retry_incident_group(
        &self,
        fingerprint: &str,
        why: Option<&str>,
    ) -> Result<GroupResolved, ClientError> {
        self.decide_group(fingerprint, GroupChoice::Retry, why).await
    }

    /// Ends every execution of a group as failed.
    pub async fn fail_incident_group(
        &self,
        fingerprint: &str,
        why: Option<&str>,
    ) -> Result<GroupResolved, ClientError> {
        self.decide_group(fingerprint, GroupChoice::Fail, why).await
    }

    /// Ends every execution of a group as cancelled.
    pub async fn cancel_incident_group(
        &self,
        fingerprint: &str,
        why: Option<&str>,
    ) -> Result<GroupResolved, ClientError> {
        self.decide_group(fingerprint, GroupChoice::Cancel, why).await
    }

    /// The same for any of these decisions, also with a limit.
    pub async fn resolve_incident_group(
        &self,
        fingerprint: &str,
        choice: GroupChoice,
        decision: &GroupDecision,
    ) -> Result<GroupResolved, ClientError> {
        let path = format!("/v1/incidents/groups/{}/{}", path_segment(fingerprint), choice.as_str());
        let ask = ApiRequest::post(path, RepeatPolicy::IfNothingHappened);
        self.send_request(&ask.with_json(json::json_body(decision)?)).await?.json()
    }

    async fn decide_incident(
        &self,
        id: &str,
        word: &str,
        body: &impl Serialize,
    ) -> Result<IncidentResolved, ClientError> {
        let path = format!("/v1/incidents/{}/{word}", path_segment(id));
        self.send_request(
            &ApiRequest::post(path, RepeatPolicy::IfNothingHappened).with_json(json::json_body(body)?),
        )
        .await?
        .json()
    }

    async fn decide_group(
        &self,
        fingerprint: &str,
        choice: GroupChoice,
        why: Option<&str>,
    ) -> Result<GroupResolved, ClientError> {
        let decision = GroupDecision { reason: why.map(str::to_owned), limit: None };
        self.resolve_incident_group(fingerprint, choice, &decision).await
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

    /// A filter by the name of its query parameter: for a word that this client does not know.
    #[must_use]
    pub fn filter(self, name: &'static str, value: &str) -> Self {
        Self(self.0.add_query(name, value))
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
