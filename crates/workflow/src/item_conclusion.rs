//! The effect of an ended item on the action that waits for it.

use std::borrow::Cow;

use millstream_model::id::Name;
use millstream_people::assignment::ItemOutcome;

use crate::action::{ActionConclusion, conclude_attempt};
use crate::definition::{ActionSpec, FailureRule};
use crate::machine::Machine;

/// The conclusion of the waiting action; `None` if the definition has no such action. An event named by
/// the queue's `escalate` takes precedence over the action's own event if some state handles it.
/// Compensation runs in either case.
pub fn conclude_item(
    item: &ItemOutcome,
    machine: &Machine,
    action: &Name,
    key: &str,
    attempts: u32,
) -> Option<ActionConclusion> {
    let spec = effective_spec(item, machine, machine.action_spec(action)?);
    Some(conclude_attempt(&spec, key, attempts, item.to_attempt(), 0.0))
}

/// The action's spec, with the queue's event in place of the action's own one where it takes precedence.
pub fn effective_spec<'s>(
    item: &ItemOutcome,
    machine: &Machine,
    spec: &'s ActionSpec,
) -> Cow<'s, ActionSpec> {
    let instead = item.event.as_ref().filter(|event| machine.knows_event(event));
    match (instead, &spec.failure) {
        (Some(event), FailureRule::Emit(_) | FailureRule::Incident) => {
            Cow::Owned(ActionSpec { failure: FailureRule::Emit(event.clone()), ..spec.clone() })
        }
        (Some(_), FailureRule::Compensate(_)) | (None, _) => Cow::Borrowed(spec),
    }
}
