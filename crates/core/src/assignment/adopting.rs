//! The action that waits for an item is leased anew: from now on the item is for that lease.

use super::item::{Waiter, Work};
use super::next::{Opening, OpeningChange};
use super::queue::{Escalate, QueueConfig};
use super::status::ItemStatus;
use super::step::Change;
use super::told::Told;
use crate::id::ActionKey;

/// What comes of it. Nothing of it is in the log: for people nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adopted {
    /// What is to be written; nothing if the item knew already.
    pub change: Option<Box<Change>>,
    /// Of an item that has ended: what the action is told, by whoever has its lease.
    pub told: Option<Told>,
}

/// Why an item is not for this lease.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAdopted {
    #[error("the item was handed in by somebody who does not wait for it")]
    NobodyWaits,
    #[error("the item is for the action {} of another step or execution", .0.action)]
    Belongs(Box<ActionKey>),
    /// A later lease has the item.
    #[error("the action was leased again since")]
    Stale,
}

/// `queue` is the one that the item is in.
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
