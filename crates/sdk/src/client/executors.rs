//! Executors, which perform graph nodes: registration and lists.

use std::collections::BTreeSet;
use std::time::Duration;

use millstream_model::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::connect::Client;
use super::json;
use super::listing::PagedList;
use super::transport::{ApiRequest, RepeatPolicy, path_segment};
use crate::client_error::ClientError;

/// An executor, as it registers itself. It serves gRPC (`NodeService`) at its address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NewExecutor {
    name: String,
    address: String,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    roles: BTreeSet<String>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    labels: BTreeSet<String>,
    capacity: u32,
    load: u32,
}

/// An executor with a recent heartbeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ExecutorView {
    pub name: String,
    pub address: String,
    /// Empty: any role.
    #[serde(default)]
    pub roles: Vec<String>,
    #[serde(default)]
    pub labels: Vec<String>,
    /// Number of nodes that it performs at once.
    pub capacity: u32,
    /// Number of nodes that it performs now, as last reported.
    #[serde(default)]
    pub load: u32,
    #[serde(default)]
    pub seen_at: Option<Timestamp>,
}

/// The answer to the registration of an executor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ExecutorRegistration {
    /// Period of the heartbeat (the same call again). An executor without one for three periods gets no
    /// nodes.
    #[serde(with = "length")]
    pub beat_every: Duration,
}

/// As in the API: `5s`.
mod length {
    use std::time::Duration;

    use millstream_model::duration;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(length: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&duration::format_duration(*length))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        duration::parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl NewExecutor {
    /// Of any role, without labels, for one node at a time. The address is `http://HOST:PORT`.
    pub fn at(name: impl Into<String>, address: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            address: address.into(),
            roles: BTreeSet::new(),
            labels: BTreeSet::new(),
            capacity: 1,
            load: 0,
        }
    }

    /// Adds a role. Without any it takes nodes of all roles.
    #[must_use]
    pub fn role(mut self, role: impl Into<String>) -> Self {
        self.roles.insert(role.into());
        self
    }

    /// Adds a label: the executor gets nodes whose labels it covers completely.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.labels.insert(label.into());
        self
    }

    /// Number of nodes that it performs at once.
    #[must_use]
    pub fn capacity(mut self, nodes: u32) -> Self {
        self.capacity = nodes;
        self
    }

    /// Number of nodes that it performs now.
    #[must_use]
    pub fn load(mut self, nodes: u32) -> Self {
        self.load = nodes;
        self
    }
}

impl Client {
    /// Registers an executor, and is also its heartbeat: call it periodically. The last call counts.
    pub async fn register_executor(
        &self,
        executor: &NewExecutor,
    ) -> Result<ExecutorRegistration, ClientError> {
        let ask =
            ApiRequest::post("/v1/executors", RepeatPolicy::Always).with_json(json::json_body(executor)?);
        self.send_request(&ask).await?.json()
    }

    /// Executors with a recent heartbeat, by name.
    pub fn executors(&self) -> PagedList<ExecutorView> {
        PagedList::new(self, ApiRequest::get("/v1/executors"))
    }

    /// Deregisters an executor: it gets no further nodes, and finishes those that it has.
    pub async fn retire_executor(&self, name: &str) -> Result<(), ClientError> {
        let path = format!("/v1/executors/{}/retire", path_segment(name));
        self.send_request(&ApiRequest::post(path, RepeatPolicy::Always).with_json(b"{}".to_vec()))
            .await
            .map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_executor_matches_api() {
        let told = |executor: &NewExecutor| serde_json::to_string(executor).unwrap();
        let executor = NewExecutor::at("e-1", "http://10.0.0.7:7000");
        assert_eq!(
            told(&executor),
            r#"{"name":"e-1","address":"http://10.0.0.7:7000","capacity":1,"load":0}"#
        );
        assert_eq!(
            told(&executor.role("writer").label("gpu").capacity(4).load(1)),
            r#"{"name":"e-1","address":"http://10.0.0.7:7000","roles":["writer"],"labels":["gpu"],"capacity":4,"load":1}"#
        );
    }
}
