//! The effect of an item's end on the action that waits for it. Pure.

use millstream_model::id::EventId;
use millstream_model::time::Timestamp;
use millstream_people::assignment::{ItemOutcome, ItemWaiter};
use millstream_workflow::item_conclusion;
use millstream_workflow::machine::Machine;

use crate::action_store::{Lease, Settlement};
use crate::outcome::{self, ActionAttempt};

/// Follows the definition's handling of success and failure; an item that was escalated with an event of its
/// queue sends that one, if the definition handles it. `None` where the definition has no such action.
pub fn settle_waiter(
    machine: &Machine,
    waiter: &ItemWaiter,
    told: &ItemOutcome,
    now: Timestamp,
    new_id: &mut dyn FnMut() -> EventId,
) -> Option<Settlement> {
    let traceparent = waiter.traceparent.as_deref();
    let whose = ActionAttempt { key: &waiter.action, revision: waiter.revision, traceparent };
    let attempts = u32::try_from(waiter.attempt).unwrap_or(1);
    let conclusion =
        item_conclusion::conclude_item(told, machine, &waiter.action.action, &whose.attempt_id(), attempts)?;
    let outcome = outcome::settle_conclusion(whose, conclusion, now, new_id);
    let lease = Lease { key: waiter.action.clone(), epoch: waiter.epoch };
    Some(Settlement { lease, event_id: waiter.event_id, outcome })
}
