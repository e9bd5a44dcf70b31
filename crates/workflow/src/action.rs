//! Outcome of an action attempt: result, retry or permanent failure.
//!
//! The worker performs and reports an [`AttemptOutcome`]; this module alone decides whether that means a
//! result, another attempt or a permanent failure, and which result event the execution receives. It
//! performs no I/O and draws no random number.

use std::time::Duration;

use millstream_model::attempt::{ActionFailure, AttemptOutcome};
use millstream_model::id::Name;
use millstream_model::raw::RawJson;
use serde::Serialize;

use crate::definition::{ActionSpec, FailureRule};

/// The outcome to record for the action, and the result event to emit to the execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ActionConclusion {
    Succeeded { result: RawJson, emit: Option<(Name, RawJson)> },
    Retry { wait: Duration, error: ActionFailure },
    Failed { error: ActionFailure, then: FailureConsequence },
}

/// Consequence of a permanent failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FailureConsequence {
    Emit(Name, RawJson),
    /// The completed actions of the transition are undone; the event of [`compensation_event`] follows.
    Compensate,
    /// The definition has no handler for the failure: the event is failed and the execution paused.
    Incident,
}

/// Decides the outcome of attempt number `attempts` (the first is 1), without a limit on their total
/// duration. `unit_random` is in `0.0..1.0`.
pub fn conclude_attempt(
    spec: &ActionSpec,
    key: &str,
    attempts: u32,
    attempt: AttemptOutcome,
    unit_random: f64,
) -> ActionConclusion {
    conclude_attempt_within(spec, key, attempts, attempt, unit_random, None)
}

/// [`conclude_attempt`] with `left`, the remainder of `schedule_to_close`: a backoff that does not fit fails the
/// action.
pub fn conclude_attempt_within(
    spec: &ActionSpec,
    key: &str,
    attempts: u32,
    attempt: AttemptOutcome,
    unit_random: f64,
    left: Option<Duration>,
) -> ActionConclusion {
    match attempt {
        AttemptOutcome::Success { result } => {
            let emit = success_event(spec, key, attempts, &result);
            ActionConclusion::Succeeded { result, emit }
        }
        AttemptOutcome::Transient { error, retry_after: _ } if spec.retry.except.contains(&error.class) => {
            conclude_failure(spec, key, attempts, error)
        }
        AttemptOutcome::Transient { error, retry_after } => {
            match spec.retry.wait_after(attempts, unit_random, retry_after) {
                Some(wait) if left.is_some_and(|left| wait >= left) => {
                    let message = format!("{}; no time is left for another attempt", error.message);
                    conclude_failure(spec, key, attempts, ActionFailure { message, ..error })
                }
                Some(wait) => ActionConclusion::Retry { wait, error },
                None => conclude_failure(spec, key, attempts, error),
            }
        }
        AttemptOutcome::Permanent { error } => conclude_failure(spec, key, attempts, error),
        AttemptOutcome::Pause { error } => {
            ActionConclusion::Failed { error, then: FailureConsequence::Incident }
        }
    }
}

/// The result event of a success, whether an attempt succeeded or an operator declared the result.
pub fn success_event(
    spec: &ActionSpec,
    key: &str,
    attempts: u32,
    result: &RawJson,
) -> Option<(Name, RawJson)> {
    let event = spec.on_success.as_ref()?;
    let outcome = ResultEventPayload { action: &spec.name, key, attempts, result: Some(result), error: None };
    Some((event.clone(), RawJson::from_value(&outcome)))
}

/// The result event after compensation has completed.
pub fn compensation_event(
    spec: &ActionSpec,
    key: &str,
    attempts: u32,
    error: &ActionFailure,
) -> Option<(Name, RawJson)> {
    match &spec.failure {
        FailureRule::Compensate(event) => Some((event.clone(), failure_payload(spec, key, attempts, error))),
        FailureRule::Incident | FailureRule::Emit(_) => None,
    }
}

fn conclude_failure(spec: &ActionSpec, key: &str, attempts: u32, error: ActionFailure) -> ActionConclusion {
    let then = match &spec.failure {
        FailureRule::Incident => FailureConsequence::Incident,
        FailureRule::Compensate(_) => FailureConsequence::Compensate,
        FailureRule::Emit(event) => {
            FailureConsequence::Emit(event.clone(), failure_payload(spec, key, attempts, &error))
        }
    };
    ActionConclusion::Failed { error, then }
}

fn failure_payload(spec: &ActionSpec, key: &str, attempts: u32, error: &ActionFailure) -> RawJson {
    let outcome = ResultEventPayload { action: &spec.name, key, attempts, result: None, error: Some(error) };
    RawJson::from_value(&outcome)
}

/// The payload of a result event.
#[derive(Serialize)]
struct ResultEventPayload<'a> {
    action: &'a Name,
    key: &'a str,
    attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a ActionFailure>,
}

#[cfg(test)]
mod tests {
    use millstream_model::document::SourceFormat;
    use millstream_model::error_class::ErrorClass;
    use millstream_model::id::{ActionKey, ExecutionId, ExecutionKey, Seq, TenantId};

    use super::*;
    use crate::definition_parser::parse;

    fn spec(rest: &str) -> ActionSpec {
        let source = format!(
            "{{name: x, initial: a, states: {{a: {{on: {{good: {{to: b}}, bad: {{to: b}}}}}}, b: {{final: true}}}},
              actions: {{charge: {{noop: null, retry: {{attempts: 3, backoff: 1s}}{rest}}}}}}}"
        );
        parse(&source, SourceFormat::Yaml).unwrap().actions()["charge"].clone()
    }

    fn key() -> String {
        let execution = ExecutionKey {
            tenant: TenantId::default_tenant(),
            execution: ExecutionId::parse("o-1").unwrap(),
        };
        ActionKey { execution, seq: Seq(4), action: Name::parse("charge").unwrap() }.to_string()
    }

    fn refused() -> ActionFailure {
        ActionFailure {
            class: ErrorClass::Status,
            message: "503 from the other side".to_owned(),
            status: Some(503),
        }
    }

    fn transient() -> AttemptOutcome {
        AttemptOutcome::Transient { error: refused(), retry_after: None }
    }

    #[test]
    fn success_event_needs_on_success() {
        let success = AttemptOutcome::Success { result: RawJson::parse("{\"id\":1}").unwrap() };
        let told = conclude_attempt(&spec(", on_success: good"), &key(), 2, success.clone(), 0.5);
        let ActionConclusion::Succeeded { emit: Some((event, payload)), .. } = told else {
            panic!("{told:?}")
        };
        assert_eq!(event.as_str(), "good");
        assert_eq!(
            payload.as_str(),
            r#"{"action":"charge","key":"default/o-1/4/charge","attempts":2,"result":{"id":1}}"#
        );
        let silent = conclude_attempt(&spec(""), &key(), 2, success, 0.5);
        assert!(matches!(silent, ActionConclusion::Succeeded { emit: None, .. }));
    }

    #[test]
    fn declared_success_emits_same_event() {
        let (result, spec) = (RawJson::parse("7").unwrap(), spec(", on_success: good"));
        let performed =
            conclude_attempt(&spec, &key(), 2, AttemptOutcome::Success { result: result.clone() }, 0.5);
        let emit = success_event(&spec, &key(), 2, &result);
        assert!(emit.is_some());
        assert_eq!(performed, ActionConclusion::Succeeded { result, emit });
    }

    #[test]
    fn transient_failure_retries_until_attempts_exhausted() {
        let spec = spec(", on_failure: bad");
        let again = conclude_attempt(&spec, &key(), 2, transient(), 1.0);
        assert_eq!(again, ActionConclusion::Retry { wait: Duration::from_secs(2), error: refused() });
        let over = conclude_attempt(&spec, &key(), 3, transient(), 1.0);
        let ActionConclusion::Failed { then: FailureConsequence::Emit(event, payload), .. } = over else {
            panic!("{over:?}")
        };
        assert_eq!(event.as_str(), "bad");
        assert_eq!(
            payload.as_str(),
            r#"{"action":"charge","key":"default/o-1/4/charge","attempts":3,"error":{"class":"status","message":"503 from the other side","status":503}}"#
        );
    }

    #[test]
    fn no_retry_beyond_schedule_to_close() {
        let left = Some(Duration::from_secs(1));
        let over = conclude_attempt_within(&spec(""), &key(), 2, transient(), 1.0, left);
        let ActionConclusion::Failed { error, .. } = over else { panic!("{over:?}") };
        assert!(error.message.ends_with("no time is left for another attempt"), "{error}");
        let again = conclude_attempt_within(&spec(""), &key(), 2, transient(), 0.1, left);
        assert!(matches!(again, ActionConclusion::Retry { .. }), "{again:?}");
    }

    #[test]
    fn retry_after_lengthens_backoff() {
        let attempt =
            AttemptOutcome::Transient { error: refused(), retry_after: Some(Duration::from_secs(7)) };
        let again = conclude_attempt(&spec(""), &key(), 1, attempt, 0.0);
        assert_eq!(again, ActionConclusion::Retry { wait: Duration::from_secs(7), error: refused() });
    }

    #[test]
    fn unhandled_permanent_failure_opens_incident() {
        let failed =
            conclude_attempt(&spec(""), &key(), 1, AttemptOutcome::Permanent { error: refused() }, 0.5);
        assert_eq!(failed, ActionConclusion::Failed { error: refused(), then: FailureConsequence::Incident });
    }

    #[test]
    fn excepted_error_class_is_not_retried() {
        let mut spec = spec("");
        spec.retry.except = vec![ErrorClass::Status];
        let failed = conclude_attempt(&spec, &key(), 1, transient(), 0.5);
        assert_eq!(failed, ActionConclusion::Failed { error: refused(), then: FailureConsequence::Incident });
    }

    #[test]
    fn pause_outcome_always_opens_incident() {
        let failed = conclude_attempt(
            &spec(", on_failure: bad"),
            &key(),
            1,
            AttemptOutcome::Pause { error: refused() },
            0.5,
        );
        assert_eq!(failed, ActionConclusion::Failed { error: refused(), then: FailureConsequence::Incident });
    }

    #[test]
    fn compensated_failure_emits_event_after_undo() {
        let spec = spec(", compensate: bad");
        let failed = conclude_attempt(&spec, &key(), 1, AttemptOutcome::Permanent { error: refused() }, 0.5);
        assert_eq!(
            failed,
            ActionConclusion::Failed { error: refused(), then: FailureConsequence::Compensate }
        );
        let (event, payload) = compensation_event(&spec, &key(), 1, &refused()).unwrap();
        assert_eq!(event.as_str(), "bad");
        assert!(payload.as_str().contains("\"attempts\":1"), "{payload}");
    }
}
