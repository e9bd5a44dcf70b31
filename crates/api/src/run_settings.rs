//! Time limits and retry limits of runs.

use std::time::Duration;

use millstream_model::duration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::scalar;

/// The settings of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RunSettings", deny_unknown_fields)]
pub struct RunSettingsView {
    /// Time limit for answering an offer.
    #[serde(with = "duration::text")]
    #[schemars(with = "scalar::Duration")]
    pub assignment_timeout: Duration,
    /// Time limit for starting after the acceptance.
    #[serde(with = "duration::text")]
    #[schemars(with = "scalar::Duration")]
    pub claim_timeout: Duration,
    /// Heartbeat interval of a device that has accepted.
    #[serde(with = "duration::text")]
    #[schemars(with = "scalar::Duration")]
    pub heartbeat: Duration,
    /// Silence after which a device loses its assignment.
    #[serde(with = "duration::text")]
    #[schemars(with = "scalar::Duration")]
    pub heartbeat_timeout: Duration,
    /// Silence after which a device gets no new assignments.
    #[serde(with = "duration::text")]
    #[schemars(with = "scalar::Duration")]
    pub reachable: Duration,
    /// Maximum number of reassignments of a seat before the run fails. Pre-emption is not counted.
    pub max_reassignments: u32,
    pub backoff: RunBackoff,
}

/// Exponential backoff after every device declined or none was able: each rest is twice as long as the one
/// before, up to `max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct RunBackoff {
    /// The first rest.
    #[serde(with = "duration::text")]
    #[schemars(with = "scalar::Duration")]
    pub first: Duration,
    /// The longest rest.
    #[serde(with = "duration::text")]
    #[schemars(with = "scalar::Duration")]
    pub max: Duration,
    /// Maximum number of rests before the run fails.
    pub rounds: u32,
}

/// Settings of this run that differ from those of its kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct RunOverrides {
    /// Time limit for answering an offer.
    #[serde(default, with = "duration::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<scalar::Duration>")]
    pub assignment_timeout: Option<Duration>,
    /// Time limit for starting after the acceptance.
    #[serde(default, with = "duration::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<scalar::Duration>")]
    pub claim_timeout: Option<Duration>,
    /// Heartbeat interval of a device that has accepted.
    #[serde(default, with = "duration::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<scalar::Duration>")]
    pub heartbeat: Option<Duration>,
    /// Silence after which a device loses its assignment.
    #[serde(default, with = "duration::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<scalar::Duration>")]
    pub heartbeat_timeout: Option<Duration>,
    /// Maximum number of reassignments of a seat before the run fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 10_000))]
    pub max_reassignments: Option<u32>,
}

impl RunOverrides {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
