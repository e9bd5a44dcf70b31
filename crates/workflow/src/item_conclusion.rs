//! The effect of an ended item on the action that waits for it.

use std::borrow::Cow;

use millstream_model::id::EventId;
use millstream_model::time::Timestamp;
use millstream_people::assignment::ItemOutcome;

use crate::action::conclude_attempt;
use crate::definition::{ActionPolicy, FailureRule};
use crate::machine::Machine;
use crate::settle_outcome::{ActionAttempt, SettleOutcome};

/// The conclusion of the waiting action; `None` if the definition has no such action. An event named by
/// the queue's `escalate` takes precedence over the action's own event if some state handles it.
/// Compensation runs in either case.
pub fn conclude_item(
    item: &ItemOutcome,
    machine: &Machine,
    whose: ActionAttempt<'_>,
    now: Timestamp,
    new_id: &mut dyn FnMut() -> EventId,
) -> Option<SettleOutcome> {
    let spec = machine.action_spec(&whose.key.action)?;
    let policy = effective_policy(item, machine, &spec.policy);
    Some(conclude_attempt(&policy, whose, item.to_attempt(), 0.0, now, new_id))
}

/// The action's policy, with the queue's event in place of the action's own one where it takes precedence.
pub fn effective_policy<'p>(
    item: &ItemOutcome,
    machine: &Machine,
    policy: &'p ActionPolicy,
) -> Cow<'p, ActionPolicy> {
    let instead = item.event.as_ref().filter(|event| machine.knows_event(event));
    match (instead, &policy.failure) {
        (Some(event), FailureRule::Emit(_) | FailureRule::Incident) => {
            Cow::Owned(ActionPolicy { failure: FailureRule::Emit(event.clone()), ..policy.clone() })
        }
        (Some(_), FailureRule::Compensate(_)) | (None, _) => Cow::Borrowed(policy),
    }
}
