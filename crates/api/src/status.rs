//! Liveness and readiness of a process, and the workers of the fleet.

use millstream_model::time::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::scalar;
use crate::words::api_words;

/// Liveness of the process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Health {
    /// Always `ok`.
    pub status: String,
    pub version: String,
}

/// Readiness of the process: the store takes writes and no shutdown has begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Readiness {
    /// Always `ready`.
    pub status: String,
    pub store: DependencyStatus,
    pub stream: DependencyStatus,
}

api_words! {
    /// Whether a service that the process uses answers.
    DependencyStatus {
        Up = "up",
        Down = "down",
    }
}

/// A worker with a recent heartbeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Worker", deny_unknown_fields)]
pub struct WorkerView {
    /// `HOST-PID-RANDOM` for operators, otherwise a digest of it.
    pub worker_id: String,
    #[schemars(with = "scalar::Time")]
    pub started_at: Timestamp,
    #[schemars(with = "scalar::Time")]
    pub seen_at: Timestamp,
    pub lanes: Vec<u8>,
    pub in_flight: i32,
    pub version: String,
}
