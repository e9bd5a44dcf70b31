//! The outcome of one attempt at an action, as its performer reports it.
//!
//! Devices, people and workers of the engine report in these words; `millstream_workflow::action` decides the
//! consequence.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error_class::ErrorClass;
use crate::raw::RawJson;

/// How one attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttemptOutcome {
    Success {
        result: RawJson,
    },
    /// Another attempt may succeed; `retry_after` is the delay that the remote side requested.
    Transient {
        error: ActionFailure,
        retry_after: Option<Duration>,
    },
    /// No further attempt can succeed.
    Permanent {
        error: ActionFailure,
    },
    /// No further attempt before an operator resolves the incident, whatever the definition says.
    Pause {
        error: ActionFailure,
    },
}

/// Why an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{class}: {message}")]
pub struct ActionFailure {
    pub class: ErrorClass,
    pub message: String,
    /// Status code of an HTTP response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
}

impl ActionFailure {
    /// A recorded error; the engine's own where it cannot be decoded.
    pub fn of_recorded(recorded: &RawJson) -> Self {
        recorded.decode().unwrap_or_else(|_| Self {
            class: ErrorClass::Internal,
            message: "the recorded error cannot be decoded".to_owned(),
            status: None,
        })
    }
}
