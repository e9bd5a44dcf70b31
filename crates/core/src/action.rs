//! Outcome of an action attempt: result, retry or permanent failure.
//!
//! The worker performs and reports an [`Attempt`]; this module alone decides whether that means a
//! result, another attempt or a permanent failure, and which result event the execution receives. It
//! performs no I/O and draws no random number.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::definition::{ActionSpec, FailureRule};
pub use crate::error_class::ErrorClass;
use crate::id::Name;
use crate::raw::RawJson;

/// How one attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attempt {
    Success {
        result: RawJson,
    },
    /// Another attempt may succeed; `retry_after` is the delay that the remote side requested.
    Transient {
        error: ActionError,
        retry_after: Option<Duration>,
    },
    /// No further attempt can succeed.
    Permanent {
        error: ActionError,
    },
    /// No further attempt before an operator resolves the incident, whatever the definition says.
    Pause {
        error: ActionError,
    },
}

/// Why an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{class}: {message}")]
pub struct ActionError {
    pub class: ErrorClass,
    pub message: String,
    /// Status code of an HTTP response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
}

/// The outcome to record for the action, and the result event to emit to the execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Conclusion {
    Succeeded { result: RawJson, emit: Option<(Name, RawJson)> },
    Retry { wait: Duration, error: ActionError },
    Failed { error: ActionError, then: OnFailure },
}

/// Consequence of a permanent failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OnFailure {
    Emit(Name, RawJson),
    /// The completed actions of the transition are undone; the event of [`compensated`] follows.
    Compensate,
    /// The definition has no handler for the failure: the event is failed and the execution paused.
    Incident,
}

/// Decides the outcome of attempt number `attempts` (the first is 1), without a limit on their total
/// duration. `unit_random` is in `0.0..1.0`.
pub fn conclude(
    spec: &ActionSpec,
    key: &str,
    attempts: u32,
    attempt: Attempt,
    unit_random: f64,
) -> Conclusion {
    conclude_within(spec, key, attempts, attempt, unit_random, None)
}

/// [`conclude`] with `left`, the remainder of `schedule_to_close`: a backoff that does not fit fails the
/// action.
pub fn conclude_within(
    spec: &ActionSpec,
    key: &str,
    attempts: u32,
    attempt: Attempt,
    unit_random: f64,
    left: Option<Duration>,
) -> Conclusion {
    match attempt {
        Attempt::Success { result } => {
            let emit = succeeded(spec, key, attempts, &result);
            Conclusion::Succeeded { result, emit }
        }
        Attempt::Transient { error, retry_after: _ } if spec.retry.except.contains(&error.class) => {
            fail(spec, key, attempts, error)
        }
        Attempt::Transient { error, retry_after } => {
            match spec.retry.wait_after(attempts, unit_random, retry_after) {
                Some(wait) if left.is_some_and(|left| wait >= left) => {
                    let message = format!("{}; no time is left for another attempt", error.message);
                    fail(spec, key, attempts, ActionError { message, ..error })
                }
                Some(wait) => Conclusion::Retry { wait, error },
                None => fail(spec, key, attempts, error),
            }
        }
        Attempt::Permanent { error } => fail(spec, key, attempts, error),
        Attempt::Pause { error } => Conclusion::Failed { error, then: OnFailure::Incident },
    }
}

/// The result event of a success, whether an attempt succeeded or an operator declared the result.
pub fn succeeded(spec: &ActionSpec, key: &str, attempts: u32, result: &RawJson) -> Option<(Name, RawJson)> {
    let event = spec.on_success.as_ref()?;
    let outcome = Outcome { action: &spec.name, key, attempts, result: Some(result), error: None };
    Some((event.clone(), RawJson::of(&outcome)))
}

/// The result event after compensation has completed.
pub fn compensated(
    spec: &ActionSpec,
    key: &str,
    attempts: u32,
    error: &ActionError,
) -> Option<(Name, RawJson)> {
    match &spec.failure {
        FailureRule::Compensate(event) => Some((event.clone(), failure(spec, key, attempts, error))),
        FailureRule::Incident | FailureRule::Emit(_) => None,
    }
}

fn fail(spec: &ActionSpec, key: &str, attempts: u32, error: ActionError) -> Conclusion {
    let then = match &spec.failure {
        FailureRule::Incident => OnFailure::Incident,
        FailureRule::Compensate(_) => OnFailure::Compensate,
        FailureRule::Emit(event) => OnFailure::Emit(event.clone(), failure(spec, key, attempts, &error)),
    };
    Conclusion::Failed { error, then }
}

fn failure(spec: &ActionSpec, key: &str, attempts: u32, error: &ActionError) -> RawJson {
    let outcome = Outcome { action: &spec.name, key, attempts, result: None, error: Some(error) };
    RawJson::of(&outcome)
}

/// The payload of a result event.
#[derive(Serialize)]
struct Outcome<'a> {
    action: &'a Name,
    key: &'a str,
    attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a ActionError>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::{Format, parse};
    use crate::id::{ActionKey, ExecutionId, ExecutionKey, Seq, TenantId};

    fn spec(rest: &str) -> ActionSpec {
        let source = format!(
            "{{name: x, initial: a, states: {{a: {{on: {{good: {{to: b}}, bad: {{to: b}}}}}}, b: {{final: true}}}},
              actions: {{charge: {{noop: null, retry: {{attempts: 3, backoff: 1s}}{rest}}}}}}}"
        );
        parse(&source, Format::Yaml).unwrap().actions()["charge"].clone()
    }

    fn key() -> String {
        let execution = ExecutionKey {
            tenant: TenantId::default_tenant(),
            execution: ExecutionId::parse("o-1").unwrap(),
        };
        ActionKey { execution, seq: Seq(4), action: Name::parse("charge").unwrap() }.to_string()
    }

    fn refused() -> ActionError {
        ActionError {
            class: ErrorClass::Status,
            message: "503 from the other side".to_owned(),
            status: Some(503),
        }
    }

    fn transient() -> Attempt {
        Attempt::Transient { error: refused(), retry_after: None }
    }

    #[test]
    fn success_tells_the_execution_only_if_asked_to() {
        let success = Attempt::Success { result: RawJson::parse("{\"id\":1}").unwrap() };
        let told = conclude(&spec(", on_success: good"), &key(), 2, success.clone(), 0.5);
        let Conclusion::Succeeded { emit: Some((event, payload)), .. } = told else { panic!("{told:?}") };
        assert_eq!(event.as_str(), "good");
        assert_eq!(
            payload.as_str(),
            r#"{"action":"charge","key":"default/o-1/4/charge","attempts":2,"result":{"id":1}}"#
        );
        let silent = conclude(&spec(""), &key(), 2, success, 0.5);
        assert!(matches!(silent, Conclusion::Succeeded { emit: None, .. }));
    }

    #[test]
    fn a_declared_success_is_told_like_any_other() {
        let (result, spec) = (RawJson::parse("7").unwrap(), spec(", on_success: good"));
        let performed = conclude(&spec, &key(), 2, Attempt::Success { result: result.clone() }, 0.5);
        let emit = succeeded(&spec, &key(), 2, &result);
        assert!(emit.is_some());
        assert_eq!(performed, Conclusion::Succeeded { result, emit });
    }

    #[test]
    fn a_transient_failure_is_tried_again_until_the_attempts_are_used_up() {
        let spec = spec(", on_failure: bad");
        let again = conclude(&spec, &key(), 2, transient(), 1.0);
        assert_eq!(again, Conclusion::Retry { wait: Duration::from_secs(2), error: refused() });
        let over = conclude(&spec, &key(), 3, transient(), 1.0);
        let Conclusion::Failed { then: OnFailure::Emit(event, payload), .. } = over else {
            panic!("{over:?}")
        };
        assert_eq!(event.as_str(), "bad");
        assert_eq!(
            payload.as_str(),
            r#"{"action":"charge","key":"default/o-1/4/charge","attempts":3,"error":{"class":"status","message":"503 from the other side","status":503}}"#
        );
    }

    #[test]
    fn no_attempt_is_waited_for_that_would_come_too_late() {
        let left = Some(Duration::from_secs(1));
        let over = conclude_within(&spec(""), &key(), 2, transient(), 1.0, left);
        let Conclusion::Failed { error, .. } = over else { panic!("{over:?}") };
        assert!(error.message.ends_with("no time is left for another attempt"), "{error}");
        let again = conclude_within(&spec(""), &key(), 2, transient(), 0.1, left);
        assert!(matches!(again, Conclusion::Retry { .. }), "{again:?}");
    }

    #[test]
    fn the_other_side_s_wish_is_honoured() {
        let attempt = Attempt::Transient { error: refused(), retry_after: Some(Duration::from_secs(7)) };
        let again = conclude(&spec(""), &key(), 1, attempt, 0.0);
        assert_eq!(again, Conclusion::Retry { wait: Duration::from_secs(7), error: refused() });
    }

    #[test]
    fn a_permanent_failure_is_not_tried_again_and_pauses_when_nothing_handles_it() {
        let failed = conclude(&spec(""), &key(), 1, Attempt::Permanent { error: refused() }, 0.5);
        assert_eq!(failed, Conclusion::Failed { error: refused(), then: OnFailure::Incident });
    }

    #[test]
    fn an_excepted_class_is_not_tried_again() {
        let mut spec = spec("");
        spec.retry.except = vec![ErrorClass::Status];
        let failed = conclude(&spec, &key(), 1, transient(), 0.5);
        assert_eq!(failed, Conclusion::Failed { error: refused(), then: OnFailure::Incident });
    }

    #[test]
    fn what_asks_for_a_person_gets_one_whatever_the_definition_says() {
        let failed =
            conclude(&spec(", on_failure: bad"), &key(), 1, Attempt::Pause { error: refused() }, 0.5);
        assert_eq!(failed, Conclusion::Failed { error: refused(), then: OnFailure::Incident });
    }

    #[test]
    fn a_compensated_failure_is_told_when_all_is_undone() {
        let spec = spec(", compensate: bad");
        let failed = conclude(&spec, &key(), 1, Attempt::Permanent { error: refused() }, 0.5);
        assert_eq!(failed, Conclusion::Failed { error: refused(), then: OnFailure::Compensate });
        let (event, payload) = compensated(&spec, &key(), 1, &refused()).unwrap();
        assert_eq!(event.as_str(), "bad");
        assert!(payload.as_str().contains("\"attempts\":1"), "{payload}");
    }
}
