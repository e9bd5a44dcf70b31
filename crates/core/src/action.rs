//! What follows from one attempt at an action.
//!
//! The worker performs and reports an [`Attempt`]; this module alone decides whether that means a
//! result, another attempt or a failure for good, and which event tells the execution. It performs
//! nothing and draws no random number.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::definition::ActionSpec;
use crate::id::{ActionKey, Name};
use crate::raw::RawJson;

/// How one attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attempt {
    Success {
        result: RawJson,
    },
    /// Another attempt may succeed; `retry_after` is what the other side asked for.
    Transient {
        error: ActionError,
        retry_after: Option<Duration>,
    },
    /// No further attempt can succeed.
    Permanent {
        error: ActionError,
    },
}

/// Why an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{class}: {message}")]
pub struct ActionError {
    pub class: ErrorClass,
    pub message: String,
    /// Of an HTTP answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
}

/// The kinds of failure, in the words of the `error.class` of a result event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorClass {
    /// The input could not be rendered; nothing was attempted.
    Input,
    /// No answer: refused, reset, name not found.
    Network,
    /// No answer in time.
    Timeout,
    /// An answer that is not a success.
    Status,
    /// An answer that could not be read (too large, not what was promised).
    Response,
    /// The target is not allowed.
    Forbidden,
    /// Something in the engine itself.
    Internal,
}

impl ErrorClass {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Network => "network",
            Self::Timeout => "timeout",
            Self::Status => "status",
            Self::Response => "response",
            Self::Forbidden => "forbidden",
            Self::Internal => "internal",
        }
    }
}

impl std::fmt::Display for ErrorClass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// What to record about the action, and what to tell the execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Conclusion {
    Succeeded { result: RawJson, emit: Option<(Name, RawJson)> },
    Retry { wait: Duration, error: ActionError },
    Failed { error: ActionError, then: OnFailure },
}

/// What a failure for good leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OnFailure {
    Emit(Name, RawJson),
    /// Nothing handles it: the event is failed and the execution paused.
    Pause,
}

/// Decides after the attempt number `attempts` (the first is 1). `unit_random` is in `0.0..1.0`.
pub fn conclude(
    spec: &ActionSpec,
    key: &ActionKey,
    attempts: u32,
    attempt: Attempt,
    unit_random: f64,
) -> Conclusion {
    match attempt {
        Attempt::Success { result } => {
            let emit = spec.on_success.as_ref().map(|event| {
                let outcome = Outcome {
                    action: &spec.name,
                    key: key.to_string(),
                    attempts,
                    result: Some(&result),
                    error: None,
                };
                (event.clone(), RawJson::of(&outcome))
            });
            Conclusion::Succeeded { result, emit }
        }
        Attempt::Transient { error, retry_after } => {
            match spec.retry.wait_after(attempts, unit_random, retry_after) {
                Some(wait) => Conclusion::Retry { wait, error },
                None => fail(spec, key, attempts, error),
            }
        }
        Attempt::Permanent { error } => fail(spec, key, attempts, error),
    }
}

fn fail(spec: &ActionSpec, key: &ActionKey, attempts: u32, error: ActionError) -> Conclusion {
    let then = match &spec.on_failure {
        None => OnFailure::Pause,
        Some(event) => {
            let outcome = Outcome {
                action: &spec.name,
                key: key.to_string(),
                attempts,
                result: None,
                error: Some(&error),
            };
            OnFailure::Emit(event.clone(), RawJson::of(&outcome))
        }
    };
    Conclusion::Failed { error, then }
}

/// The payload of a result event.
#[derive(Serialize)]
struct Outcome<'a> {
    action: &'a Name,
    key: String,
    attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a ActionError>,
}
