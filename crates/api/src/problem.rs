//! Errors: a problem document for every refused request, and for every refused item of a batch.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quotas::SourcedQuota;
use crate::runs::SeatHolder;

/// RFC 9457.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Problem {
    /// `urn:millstream:problem:` and a word.
    #[serde(rename = "type", default)]
    pub kind: String,
    #[serde(default)]
    pub title: String,
    pub status: u16,
    #[serde(default)]
    pub detail: String,
    /// Names the request, also in the log of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// All faults of the request, each with its place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<RequestFault>,
    /// Of a run: the current holder of the seat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<SeatHolder>,
    /// Of a quota refusal: the quota.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota: Option<SourcedQuota>,
}

impl Problem {
    /// The last part of the type: `not-found`, `invalid`, `unknown-event`, …
    pub fn word(&self) -> &str {
        self.kind.rsplit(':').next().unwrap_or_default()
    }
}

/// One fault of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct RequestFault {
    /// Dotted, like `states.paid.on.ship.to`; empty for the whole document.
    pub path: String,
    pub message: String,
}
