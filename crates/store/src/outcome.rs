//! From a conclusion to a settlement: the one mapping between `core`'s outcomes and this contract, used by
//! every performer. Pure; ids come from the function passed in.

use millstream_core::action::{self, ActionError, Conclusion, ErrorClass, OnFailure};
use millstream_core::definition::ActionSpec;
use millstream_core::id::{ActionKey, EventId, IncidentId, Name};
use millstream_core::incident::NewIncident;
use millstream_core::log::Origin;
use millstream_core::raw::RawJson;
use millstream_core::time::Timestamp;

use crate::action_store::{AfterFailure, Settling};
use crate::event_log::NewEvent;

/// The action and attempt of an outcome.
#[derive(Debug, Clone, Copy)]
pub struct Whose<'a> {
    pub key: &'a ActionKey,
    pub revision: i32,
    pub traceparent: Option<&'a str>,
}

impl Whose<'_> {
    /// In the form that attempts carry.
    pub fn shown(&self) -> String {
        self.key.with_revision(self.revision)
    }

    fn event(&self, event_id: EventId, name: Name, payload: RawJson) -> Box<NewEvent> {
        Box::new(event(event_id, self.key, name, payload, self.traceparent.map(str::to_owned)))
    }
}

/// The settlement of a conclusion.
pub fn settling(
    whose: Whose<'_>,
    conclusion: Conclusion,
    now: Timestamp,
    new_id: &mut dyn FnMut() -> EventId,
) -> Settling {
    match conclusion {
        Conclusion::Succeeded { result, emit } => Settling::Succeeded {
            result,
            emit: emit.map(|(name, payload)| whose.event(new_id(), name, payload)),
        },
        Conclusion::Retry { wait, error } => {
            Settling::Retry { error: RawJson::of(&error), at: now.plus(wait) }
        }
        Conclusion::Failed { error, then } => {
            let then = match then {
                OnFailure::Emit(name, payload) => AfterFailure::Emit(whose.event(new_id(), name, payload)),
                OnFailure::Compensate => AfterFailure::Compensate,
                OnFailure::Incident => AfterFailure::Incident(incident(whose.key, &error, new_id())),
            };
            Settling::Failed { error: RawJson::of(&error), then }
        }
    }
}

/// Every undo is done: the original failure is reported.
pub fn compensated(
    whose: Whose<'_>,
    spec: &ActionSpec,
    attempts: u32,
    error: &RawJson,
    new_id: &mut dyn FnMut() -> EventId,
) -> Settling {
    let told: ActionError = error.decode().unwrap_or_else(|_| ActionError {
        class: ErrorClass::Internal,
        message: "the recorded error cannot be decoded".to_owned(),
        status: None,
    });
    let then = match action::compensated(spec, &whose.shown(), attempts, &told) {
        Some((name, payload)) => AfterFailure::Emit(whose.event(new_id(), name, payload)),
        None => AfterFailure::Incident(incident(whose.key, &told, new_id())),
    };
    Settling::Failed { error: error.clone(), then }
}

pub fn incident(key: &ActionKey, error: &ActionError, id: EventId) -> NewIncident {
    NewIncident {
        id: IncidentId(id.0),
        class: error.class.clone(),
        reason: format!("action {} failed: {error}", key.action),
    }
}

/// The event that carries an action's outcome to an execution.
pub fn event(
    event_id: EventId,
    key: &ActionKey,
    name: Name,
    payload: RawJson,
    traceparent: Option<String>,
) -> NewEvent {
    NewEvent {
        event_id,
        execution: key.execution.clone(),
        name,
        payload,
        origin: Origin::Posted,
        idempotency: None,
        actor: Some(format!("action:{}", key.action)),
        traceparent,
    }
}
