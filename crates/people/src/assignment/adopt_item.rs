//! Adoption: when the waiting action is leased again, its item is bound to the new lease.

use millstream_model::id::ActionKey;

use super::item::{ItemAggregate, ItemWaiter};
use super::item_outcome::ItemOutcome;
use super::queue::{EscalationTarget, QueueConfig};
use super::select::{ItemOpening, OpeningChange};
use super::status::ItemStatus;
use super::step::ItemChange;

/// The result of an adoption. It is not logged: nothing changes for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemAdoption {
    /// The change to write; `None` if the item already has this lease.
    pub change: Option<Box<ItemChange>>,
    /// For an item that has ended: the outcome to deliver to the holder of the lease.
    pub told: Option<ItemOutcome>,
}

/// Why an item cannot be bound to this lease.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdoptionRefusal {
    #[error("no action waits for the item")]
    NobodyWaits,
    #[error("the item belongs to the action {} of another step or execution", .0.action)]
    Belongs(Box<ActionKey>),
    /// A later lease already holds the item.
    #[error("a later lease of the action holds the item")]
    Stale,
}

/// `queue` is the queue that the item is in.
pub fn adopt_item(
    work: &ItemAggregate,
    queue: &QueueConfig,
    waiter: &ItemWaiter,
) -> Result<ItemAdoption, AdoptionRefusal> {
    let known = work.item.waiter.as_ref().ok_or(AdoptionRefusal::NobodyWaits)?;
    if known.action != waiter.action {
        return Err(AdoptionRefusal::Belongs(Box::new(known.action.clone())));
    }
    if known.epoch > waiter.epoch {
        return Err(AdoptionRefusal::Stale);
    }
    let told =
        work.item.status.is_ended().then(|| ItemOutcome::from_work(work, escalation_event(work, queue)));
    if known == waiter {
        return Ok(ItemAdoption { change: None, told });
    }
    let mut after = work.clone();
    after.item.waiter = Some(waiter.clone());
    let needs = after.opening_count();
    let change = if needs > 0 { OpeningChange::Update } else { OpeningChange::None };
    let opening = ItemOpening { change, needs, barred: after.barred_persons(queue) };
    let change = ItemChange { work: after, changed: Vec::new(), log: Vec::new(), opening, told: None };
    Ok(ItemAdoption { change: Some(Box::new(change)), told })
}

fn escalation_event(work: &ItemAggregate, queue: &QueueConfig) -> Option<millstream_model::id::Name> {
    match &queue.escalate {
        Some(EscalationTarget::Event(event)) if work.item.status == ItemStatus::Escalated => {
            Some(event.clone())
        }
        Some(EscalationTarget::Event(_) | EscalationTarget::Queue(_)) | None => None,
    }
}
