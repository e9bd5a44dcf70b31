//! The effect of an item's end on the action that waits for it. Pure.

use millstream_model::id::EventId;
use millstream_model::time::Timestamp;
use millstream_people::assignment::{ItemOutcome, ItemWaiter};
use millstream_workflow::item_conclusion;
use millstream_workflow::machine::Machine;

use crate::action_store::{ActionAttempt, Lease, Settlement};

/// Follows the definition's handling of success and failure; an item that was escalated with an event of its
/// queue sends that one, if the definition handles it. `None` where the definition has no such action.
pub fn settle_waiter(
    machine: &Machine,
    waiter: &ItemWaiter,
    told: &ItemOutcome,
    now: Timestamp,
    new_id: &mut dyn FnMut() -> EventId,
) -> Option<Settlement> {
    let whose = ActionAttempt {
        key: &waiter.action,
        revision: waiter.revision,
        attempts: waiter.attempt,
        ready_at: None,
        traceparent: waiter.traceparent.as_deref(),
    };
    let outcome = item_conclusion::conclude_item(told, machine, whose, now, new_id)?;
    let lease = Lease { key: waiter.action.clone(), epoch: waiter.epoch };
    Some(Settlement { lease, event_id: waiter.event_id, outcome })
}
