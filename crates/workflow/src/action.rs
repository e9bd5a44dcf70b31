//! Outcome of an action attempt: result, retry or permanent failure.
//!
//! Workers, devices and people report an [`AttemptOutcome`]; this module alone decides whether that means a
//! result, another attempt or a permanent failure, and which result event the execution receives. It
//! performs no I/O and draws no random number: the time, the random number and new ids are arguments.

use millstream_model::attempt::{ActionFailure, AttemptOutcome};
use millstream_model::id::{ActionKey, EventId, IncidentId, Name};
use millstream_model::incident::NewIncident;
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use serde::Serialize;

use crate::definition::{ActionPolicy, ActionSpec, FailureRule};
use crate::event_submission::EventSubmission;
use crate::log::EventOrigin;
use crate::schedule;
use crate::settle_outcome::{ActionAttempt, AfterFailure, SettleOutcome};

/// Decides what is recorded about an attempt. `unit_random` is in `0.0..1.0`. A backoff that does not fit
/// into the remainder of `schedule_to_close` fails the action.
pub fn conclude_attempt(
    policy: &ActionPolicy,
    whose: ActionAttempt<'_>,
    attempt: AttemptOutcome,
    unit_random: f64,
    now: Timestamp,
    new_id: &mut dyn FnMut() -> EventId,
) -> SettleOutcome {
    match attempt {
        AttemptOutcome::Success { result } => {
            let emit = policy.on_success.as_ref().map(|event| {
                let payload = success_payload(&whose, &result);
                result_event(whose, new_id(), event.clone(), payload)
            });
            SettleOutcome::Succeeded { result, emit }
        }
        AttemptOutcome::Transient { error, retry_after: _ } if policy.retry.except.contains(&error.class) => {
            conclude_failure(policy, whose, error, new_id)
        }
        AttemptOutcome::Transient { error, retry_after } => {
            let left =
                whose.ready_at.and_then(|ready_at| schedule::remaining_time(&policy.timeouts, ready_at, now));
            match policy.retry.wait_after(whose.attempt_number(), unit_random, retry_after) {
                Some(wait) if left.is_some_and(|left| wait >= left) => {
                    let message = format!("{}; no time is left for another attempt", error.message);
                    conclude_failure(policy, whose, ActionFailure { message, ..error }, new_id)
                }
                Some(wait) => SettleOutcome::Retry { error: RawJson::from_value(&error), at: now.plus(wait) },
                None => conclude_failure(policy, whose, error, new_id),
            }
        }
        AttemptOutcome::Permanent { error } => conclude_failure(policy, whose, error, new_id),
        AttemptOutcome::Pause { error } => conclude_unhandled(whose.key, &error, new_id()),
    }
}

/// Every undo is done: the original failure is reported, as it was recorded.
pub fn conclude_compensation(
    policy: &ActionPolicy,
    whose: ActionAttempt<'_>,
    recorded: &RawJson,
    new_id: &mut dyn FnMut() -> EventId,
) -> SettleOutcome {
    let error = ActionFailure::of_recorded(recorded);
    let then = match &policy.failure {
        FailureRule::Compensate(event) => {
            let payload = failure_payload(&whose, &error);
            AfterFailure::Emit(result_event(whose, new_id(), event.clone(), payload))
        }
        FailureRule::Incident | FailureRule::Emit(_) => {
            AfterFailure::Incident(failure_incident(whose.key, &error, new_id()))
        }
    };
    SettleOutcome::Failed { error: recorded.clone(), then }
}

/// A failure that no rule of a definition handles: an operator decides.
pub fn conclude_unhandled(key: &ActionKey, error: &ActionFailure, new_id: EventId) -> SettleOutcome {
    let then = AfterFailure::Incident(failure_incident(key, error, new_id));
    SettleOutcome::Failed { error: RawJson::from_value(error), then }
}

pub fn failure_incident(key: &ActionKey, error: &ActionFailure, id: EventId) -> NewIncident {
    NewIncident {
        id: IncidentId(id.0),
        class: error.class.clone(),
        reason: format!("action {} failed: {error}", key.action),
    }
}

/// The result event of a success that an operator declared: the same as that of an attempt.
pub fn success_event(
    spec: &ActionSpec,
    key: &str,
    attempts: u32,
    result: &RawJson,
) -> Option<(Name, RawJson)> {
    let event = spec.policy.on_success.as_ref()?;
    let outcome = ResultEventPayload { action: &spec.name, key, attempts, result: Some(result), error: None };
    Some((event.clone(), RawJson::from_value(&outcome)))
}

fn conclude_failure(
    policy: &ActionPolicy,
    whose: ActionAttempt<'_>,
    error: ActionFailure,
    new_id: &mut dyn FnMut() -> EventId,
) -> SettleOutcome {
    let then = match &policy.failure {
        FailureRule::Incident => return conclude_unhandled(whose.key, &error, new_id()),
        FailureRule::Compensate(_) => AfterFailure::Compensate,
        FailureRule::Emit(event) => {
            let payload = failure_payload(&whose, &error);
            AfterFailure::Emit(result_event(whose, new_id(), event.clone(), payload))
        }
    };
    SettleOutcome::Failed { error: RawJson::from_value(&error), then }
}

/// The event that carries an action's outcome to its execution.
fn result_event(
    whose: ActionAttempt<'_>,
    event_id: EventId,
    name: Name,
    payload: RawJson,
) -> Box<EventSubmission> {
    Box::new(EventSubmission {
        event_id,
        execution: whose.key.execution.clone(),
        name,
        payload,
        origin: EventOrigin::Posted,
        idempotency: None,
        actor: Some(format!("action:{}", whose.key.action)),
        traceparent: whose.traceparent.map(str::to_owned),
    })
}

fn success_payload(whose: &ActionAttempt<'_>, result: &RawJson) -> RawJson {
    let (action, key, attempts) = (&whose.key.action, &whose.attempt_id(), whose.attempt_number());
    RawJson::from_value(&ResultEventPayload { action, key, attempts, result: Some(result), error: None })
}

fn failure_payload(whose: &ActionAttempt<'_>, error: &ActionFailure) -> RawJson {
    let (action, key, attempts) = (&whose.key.action, &whose.attempt_id(), whose.attempt_number());
    RawJson::from_value(&ResultEventPayload { action, key, attempts, result: None, error: Some(error) })
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
    use std::time::Duration;

    use millstream_model::document::SourceFormat;
    use millstream_model::error_class::ErrorClass;
    use millstream_model::id::{ExecutionId, ExecutionKey, Seq, TenantId};
    use uuid::Uuid;

    use super::*;
    use crate::definition_parser::parse;

    fn spec(rest: &str) -> ActionSpec {
        let source = format!(
            "{{name: x, initial: a, states: {{a: {{on: {{good: {{to: b}}, bad: {{to: b}}}}}}, b: {{final: true}}}},
              actions: {{charge: {{noop: null, retry: {{attempts: 3, backoff: 1s}}{rest}}}}}}}"
        );
        parse(&source, SourceFormat::Yaml).unwrap().actions()["charge"].clone()
    }

    fn key() -> ActionKey {
        let execution = ExecutionKey {
            tenant: TenantId::default_tenant(),
            execution: ExecutionId::parse("o-1").unwrap(),
        };
        ActionKey { execution, seq: Seq(4), action: Name::parse("charge").unwrap() }
    }

    fn now() -> Timestamp {
        Timestamp::EPOCH.plus(Duration::from_secs(100))
    }

    fn id() -> EventId {
        EventId(Uuid::from_u128(9))
    }

    /// The conclusion of attempt number `attempts` of an action that became ready at `ready_at`.
    fn concluded(
        rest: &str,
        attempts: i32,
        attempt: AttemptOutcome,
        unit: f64,
        ready_at: Option<Timestamp>,
    ) -> SettleOutcome {
        let key = key();
        let whose = ActionAttempt { key: &key, revision: 0, attempts, ready_at, traceparent: None };
        conclude_attempt(&spec(rest).policy, whose, attempt, unit, now(), &mut id)
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

    fn emitted(outcome: &SettleOutcome) -> (&str, &str) {
        let event = outcome.emitted_event().unwrap();
        assert_eq!((event.event_id, event.actor.as_deref()), (id(), Some("action:charge")));
        (event.name.as_str(), event.payload.as_str())
    }

    fn retry_time(outcome: &SettleOutcome) -> Timestamp {
        let SettleOutcome::Retry { error, at } = outcome else { panic!("{outcome:?}") };
        assert_eq!(ActionFailure::of_recorded(error), refused());
        *at
    }

    fn incident_reason(outcome: &SettleOutcome) -> &str {
        let SettleOutcome::Failed { error, then: AfterFailure::Incident(incident) } = outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!(ActionFailure::of_recorded(error), refused());
        assert_eq!(incident.id, IncidentId(id().0));
        &incident.reason
    }

    #[test]
    fn success_event_needs_on_success() {
        let success = AttemptOutcome::Success { result: RawJson::parse("{\"id\":1}").unwrap() };
        let told = concluded(", on_success: good", 2, success.clone(), 0.5, None);
        let payload = r#"{"action":"charge","key":"default/o-1/4/charge","attempts":2,"result":{"id":1}}"#;
        assert_eq!(emitted(&told), ("good", payload));
        let silent = concluded("", 2, success, 0.5, None);
        assert!(matches!(silent, SettleOutcome::Succeeded { emit: None, .. }));
    }

    #[test]
    fn declared_success_emits_same_event() {
        let result = RawJson::parse("7").unwrap();
        let performed =
            concluded(", on_success: good", 2, AttemptOutcome::Success { result: result.clone() }, 0.5, None);
        let (name, payload) =
            success_event(&spec(", on_success: good"), &key().to_string(), 2, &result).unwrap();
        assert_eq!(emitted(&performed), (name.as_str(), payload.as_str()));
    }

    #[test]
    fn transient_failure_retries_until_attempts_exhausted() {
        let again = concluded(", on_failure: bad", 2, transient(), 1.0, None);
        assert_eq!(retry_time(&again), now().plus(Duration::from_secs(2)));
        let over = concluded(", on_failure: bad", 3, transient(), 1.0, None);
        let payload = r#"{"action":"charge","key":"default/o-1/4/charge","attempts":3,"error":{"class":"status","message":"503 from the other side","status":503}}"#;
        assert_eq!(emitted(&over), ("bad", payload));
    }

    #[test]
    fn no_retry_beyond_schedule_to_close() {
        let limit = ", timeouts: {start_to_close: 10s, schedule_to_close: 100s}";
        // One second is left.
        let ready_at = Some(Timestamp::EPOCH.plus(Duration::from_secs(1)));
        let over = concluded(limit, 2, transient(), 1.0, ready_at);
        let SettleOutcome::Failed { error, .. } = over else { panic!("{over:?}") };
        let error = ActionFailure::of_recorded(&error);
        assert!(error.message.ends_with("no time is left for another attempt"), "{error}");
        retry_time(&concluded(limit, 2, transient(), 0.1, ready_at));
        retry_time(&concluded(limit, 2, transient(), 1.0, None));
    }

    #[test]
    fn retry_after_lengthens_backoff() {
        let attempt =
            AttemptOutcome::Transient { error: refused(), retry_after: Some(Duration::from_secs(7)) };
        let again = concluded("", 1, attempt, 0.0, None);
        assert_eq!(retry_time(&again), now().plus(Duration::from_secs(7)));
    }

    #[test]
    fn unhandled_permanent_failure_opens_incident() {
        let failed = concluded("", 1, AttemptOutcome::Permanent { error: refused() }, 0.5, None);
        assert_eq!(incident_reason(&failed), "action charge failed: status: 503 from the other side");
    }

    #[test]
    fn excepted_error_class_is_not_retried() {
        let mut policy = spec("").policy;
        policy.retry.except = vec![ErrorClass::Status];
        let key = key();
        let whose = ActionAttempt { key: &key, revision: 0, attempts: 1, ready_at: None, traceparent: None };
        let failed = conclude_attempt(&policy, whose, transient(), 0.5, now(), &mut id);
        incident_reason(&failed);
    }

    #[test]
    fn pause_outcome_always_opens_incident() {
        let failed = concluded(", on_failure: bad", 1, AttemptOutcome::Pause { error: refused() }, 0.5, None);
        incident_reason(&failed);
    }

    #[test]
    fn compensated_failure_emits_event_after_undo() {
        let rest = ", compensate: bad";
        let failed = concluded(rest, 1, AttemptOutcome::Permanent { error: refused() }, 0.5, None);
        let SettleOutcome::Failed { error, then: AfterFailure::Compensate } = failed else {
            panic!("{failed:?}")
        };
        let key = key();
        let whose = ActionAttempt { key: &key, revision: 0, attempts: 1, ready_at: None, traceparent: None };
        let reported = conclude_compensation(&spec(rest).policy, whose, &error, &mut id);
        let (name, payload) = emitted(&reported);
        assert_eq!(name, "bad");
        assert!(payload.contains("\"attempts\":1"), "{payload}");
    }
}
