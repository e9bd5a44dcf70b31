//! Adoption: when the waiting action is leased again, its item is bound to the new lease.

use super::item::{Waiter, Work};
use super::next::{Opening, OpeningChange};
use super::queue::{Escalate, QueueConfig};
use super::status::ItemStatus;
use super::step::Change;
use super::told::Told;
use crate::id::ActionKey;

/// The result of an adoption. It is not logged: nothing changes for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adopted {
    /// The change to write; `None` if the item already has this lease.
    pub change: Option<Box<Change>>,
    /// For an item that has ended: the outcome to deliver to the holder of the lease.
    pub told: Option<Told>,
}

/// Why an item cannot be bound to this lease.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAdopted {
    #[error("no action waits for the item")]
    NobodyWaits,
    #[error("the item belongs to the action {} of another step or execution", .0.action)]
    Belongs(Box<ActionKey>),
    /// A later lease already holds the item.
    #[error("a later lease of the action holds the item")]
    Stale,
}

/// `queue` is the queue that the item is in.
pub fn adopt(work: &Work, queue: &QueueConfig, waiter: &Waiter) -> Result<Adopted, NotAdopted> {
    let known = work.item.waiter.as_ref().ok_or(NotAdopted::NobodyWaits)?;
    if known.action != waiter.action {
        return Err(NotAdopted::Belongs(Box::new(known.action.clone())));
    }
    if known.epoch > waiter.epoch {
        return Err(NotAdopted::Stale);
    }
    let told = work.item.status.is_ended().then(|| Told::of(work, event(work, queue)));
    if known == waiter {
        return Ok(Adopted { change: None, told });
    }
    let mut after = work.clone();
    after.item.waiter = Some(waiter.clone());
    let needs = after.needs();
    let change = if needs > 0 { OpeningChange::Update } else { OpeningChange::None };
    let opening = Opening { change, needs, barred: after.barred(queue) };
    let change = Change { work: after, changed: Vec::new(), log: Vec::new(), opening, told: None };
    Ok(Adopted { change: Some(Box::new(change)), told })
}

fn event(work: &Work, queue: &QueueConfig) -> Option<crate::id::Name> {
    match &queue.escalate {
        Some(Escalate::Event(event)) if work.item.status == ItemStatus::Escalated => Some(event.clone()),
        Some(Escalate::Event(_) | Escalate::Queue(_)) | None => None,
    }
}
