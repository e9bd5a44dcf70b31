//! Executors, which perform the nodes of graphs.

use std::collections::BTreeSet;
use std::time::Duration;

use millstream_model::duration;
use millstream_model::time::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::scalar;

/// An executor to register. It serves gRPC (`NodeService`) at its address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct NewExecutor {
    #[schemars(with = "scalar::Name")]
    pub name: String,
    /// The address of its NodeService: `http://host:port`.
    #[schemars(length(max = 512), regex(pattern = r"^http://[a-z0-9.-]+:[1-9][0-9]{0,3}$"))]
    pub address: String,
    /// The roles that it performs; none: any.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    #[schemars(with = "Vec<scalar::ExecutorRole>", length(max = 64))]
    pub roles: BTreeSet<String>,
    /// It gets only nodes whose labels are all among these.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    #[schemars(with = "Vec<scalar::Name>", length(max = 64))]
    pub labels: BTreeSet<String>,
    /// Number of nodes that it performs at once.
    #[schemars(range(min = 1, max = 4_294_967_295_u32))]
    pub capacity: u32,
    /// Number of nodes that it performs now.
    #[serde(default)]
    #[schemars(range(min = 0, max = 4_294_967_295_u32))]
    pub load: u32,
}

/// The answer to the registration of an executor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ExecutorRegistered", deny_unknown_fields)]
pub struct ExecutorRegistration {
    #[schemars(with = "scalar::Name")]
    pub name: String,
    /// Renew the registration after this time, by the same call. An executor that was silent for three such
    /// periods gets no nodes.
    #[serde(with = "duration::text")]
    #[schemars(with = "scalar::Duration")]
    pub beat_every: Duration,
}

/// An executor with a current registration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Executor", deny_unknown_fields)]
pub struct ExecutorView {
    #[schemars(with = "scalar::Name")]
    pub name: String,
    pub address: String,
    /// The roles that it performs; none: any.
    pub roles: Vec<String>,
    #[schemars(with = "Vec<scalar::Name>")]
    pub labels: Vec<String>,
    /// Number of nodes that it performs at once.
    pub capacity: u32,
    /// Number of nodes that it performs now, as last reported.
    pub load: u32,
    /// The time of its last registration.
    #[schemars(with = "scalar::Time")]
    pub seen_at: Timestamp,
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
