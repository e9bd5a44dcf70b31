//! The reason of an operator's request.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A request with an optional reason.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Reason {
    /// Recorded with the actor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
