//! What the end of an item means for the action that waits for it. Pure.

use millstream_core::action::{self, ActionError, Attempt};
use millstream_core::assignment::{Told, Waiter};
use millstream_core::definition::ActionSpec;
use millstream_core::id::EventId;
use millstream_core::raw::RawJson;
use millstream_core::time::Timestamp;

use crate::action_store::{AfterFailure, Lease, Settlement, Settling};
use crate::outcome::{self, Whose};

/// As the definition says what becomes of a success and a failure; an item that was escalated with an event of its
/// queue sends that one.
pub fn settlement(
    spec: &ActionSpec,
    waiter: &Waiter,
    told: &Told,
    now: Timestamp,
    new_id: &mut dyn FnMut() -> EventId,
) -> Settlement {
    let traceparent = waiter.traceparent.as_deref();
    let whose = Whose { key: &waiter.action, revision: waiter.revision, traceparent };
    let attempt = told.attempt();
    let outcome = match (&told.event, failure(&attempt)) {
        (Some(name), Some(error)) => {
            let payload = told.payload.clone();
            let (name, traceparent) = (name.clone(), waiter.traceparent.clone());
            let event = outcome::event(new_id(), &waiter.action, name, payload, traceparent);
            Settling::Failed { error, then: AfterFailure::Emit(Box::new(event)) }
        }
        (Some(_) | None, _) => {
            let attempts = u32::try_from(waiter.attempt).unwrap_or(1);
            let conclusion = action::conclude(spec, &whose.shown(), attempts, attempt, 0.0);
            outcome::settling(whose, conclusion, now, new_id)
        }
    };
    let lease = Lease { key: waiter.action.clone(), epoch: waiter.epoch };
    Settlement { lease, event_id: waiter.event_id, outcome }
}

fn failure(attempt: &Attempt) -> Option<RawJson> {
    let error: &ActionError = match attempt {
        Attempt::Success { .. } => return None,
        Attempt::Permanent { error } | Attempt::Pause { error } | Attempt::Transient { error, .. } => error,
    };
    Some(RawJson::of(error))
}
