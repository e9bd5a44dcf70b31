//! From a conclusion to a settlement: the one mapping between the outcomes of `workflow` and this contract, used by
//! every performer. Pure; ids come from the function passed in.

use millstream_model::attempt::ActionFailure;
use millstream_model::error_class::ErrorClass;
use millstream_model::id::{ActionKey, EventId, IncidentId, Name};
use millstream_model::incident::NewIncident;
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_workflow::action::{self, ActionConclusion, FailureConsequence};
use millstream_workflow::definition::ActionSpec;
use millstream_workflow::log::EventOrigin;

use crate::action_store::{AfterFailure, SettleOutcome};
use crate::event_log::EventSubmission;

/// The action and attempt of an outcome.
#[derive(Debug, Clone, Copy)]
pub struct ActionAttempt<'a> {
    pub key: &'a ActionKey,
    pub revision: i32,
    pub traceparent: Option<&'a str>,
}

impl ActionAttempt<'_> {
    /// In the form that attempts carry.
    pub fn attempt_id(&self) -> String {
        self.key.with_revision(self.revision)
    }

    fn outcome_event(&self, event_id: EventId, name: Name, payload: RawJson) -> Box<EventSubmission> {
        Box::new(outcome_event(event_id, self.key, name, payload, self.traceparent.map(str::to_owned)))
    }
}

/// The settlement of a conclusion.
pub fn settle_conclusion(
    whose: ActionAttempt<'_>,
    conclusion: ActionConclusion,
    now: Timestamp,
    new_id: &mut dyn FnMut() -> EventId,
) -> SettleOutcome {
    match conclusion {
        ActionConclusion::Succeeded { result, emit } => SettleOutcome::Succeeded {
            result,
            emit: emit.map(|(name, payload)| whose.outcome_event(new_id(), name, payload)),
        },
        ActionConclusion::Retry { wait, error } => {
            SettleOutcome::Retry { error: RawJson::from_value(&error), at: now.plus(wait) }
        }
        ActionConclusion::Failed { error, then } => {
            let then = match then {
                FailureConsequence::Emit(name, payload) => {
                    AfterFailure::Emit(whose.outcome_event(new_id(), name, payload))
                }
                FailureConsequence::Compensate => AfterFailure::Compensate,
                FailureConsequence::Incident => {
                    AfterFailure::Incident(failure_incident(whose.key, &error, new_id()))
                }
            };
            SettleOutcome::Failed { error: RawJson::from_value(&error), then }
        }
    }
}

/// Every undo is done: the original failure is reported.
pub fn settle_compensated(
    whose: ActionAttempt<'_>,
    spec: &ActionSpec,
    attempts: u32,
    error: &RawJson,
    new_id: &mut dyn FnMut() -> EventId,
) -> SettleOutcome {
    let told: ActionFailure = error.decode().unwrap_or_else(|_| ActionFailure {
        class: ErrorClass::Internal,
        message: "the recorded error cannot be decoded".to_owned(),
        status: None,
    });
    let then = match action::compensation_event(spec, &whose.attempt_id(), attempts, &told) {
        Some((name, payload)) => AfterFailure::Emit(whose.outcome_event(new_id(), name, payload)),
        None => AfterFailure::Incident(failure_incident(whose.key, &told, new_id())),
    };
    SettleOutcome::Failed { error: error.clone(), then }
}

pub fn failure_incident(key: &ActionKey, error: &ActionFailure, id: EventId) -> NewIncident {
    NewIncident {
        id: IncidentId(id.0),
        class: error.class.clone(),
        reason: format!("action {} failed: {error}", key.action),
    }
}

/// The event that carries an action's outcome to an execution.
pub fn outcome_event(
    event_id: EventId,
    key: &ActionKey,
    name: Name,
    payload: RawJson,
    traceparent: Option<String>,
) -> EventSubmission {
    EventSubmission {
        event_id,
        execution: key.execution.clone(),
        name,
        payload,
        origin: EventOrigin::Posted,
        idempotency: None,
        actor: Some(format!("action:{}", key.action)),
        traceparent,
    }
}
