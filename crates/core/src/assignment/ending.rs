//! How items end: done, failed, withdrawn, or escalated to another queue or by an event to the waiting
//! execution.

use std::fmt;

use super::agreement::Agreement;
use super::given::{Assignment, Place};
use super::logbook::What;
use super::next::Class;
use super::queue::{Eligible, Escalate, QueueConfig};
use super::status::{AssignmentStatus, ItemStatus};
use super::step::Draft;
use super::told::Told;
use crate::id::{AssignmentId, Name};

/// Why an item cannot be completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The queue's limit of attempts is reached.
    Attempts,
    /// Every eligible person has already had the item.
    NobodyLeft,
    /// The due time passed.
    Overdue,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Attempts => "max_attempts_total is reached",
            Self::NobodyLeft => "no eligible person is left",
            Self::Overdue => "it was not done in time",
        })
    }
}

/// Ends the item if its assignments require it.
pub(super) fn look(draft: &mut Draft<'_>) {
    let work = &draft.work;
    if work.item.status.is_ended() {
        return;
    }
    if work.completed() >= usize::try_from(work.item.overlap).unwrap_or(usize::MAX) {
        draft.work.item.agreement = Some(Agreement::of(&draft.work, &draft.queue.agreement));
        return end(draft, ItemStatus::Done, What::Done, None, None);
    }
    let nobody = match &draft.queue.people {
        Eligible::Anyone => false,
        Eligible::Listed(people) => people.iter().all(|person| work.bars(person, draft.queue)),
    };
    // A person with an open assignment may lose it and be assigned the item once more.
    let with_somebody = work.assignments.values().any(|one| one.status.is_open());
    if work.needs() > 0 && !with_somebody && nobody {
        give_up(draft, Why::NobodyLeft);
    }
}

/// A correction was submitted: recomputes the agreement of the answers.
pub(super) fn agree_again(draft: &mut Draft<'_>) {
    if draft.work.item.agreement.is_some() {
        draft.work.item.agreement = Some(Agreement::of(&draft.work, &draft.queue.agreement));
    }
}

pub(super) fn withdraw(draft: &mut Draft<'_>, reason: Option<&str>) {
    end(draft, ItemStatus::Withdrawn, What::Withdrawn, reason, None);
}

/// The item fails, unless its queue escalates it.
pub(super) fn give_up(draft: &mut Draft<'_>, why: Why) {
    let reason = why.to_string();
    match &draft.queue.escalate {
        None => end(draft, ItemStatus::Failed, What::Failed, Some(&reason), None),
        Some(Escalate::Event(event)) => {
            let event = Some(event.clone());
            end(draft, ItemStatus::Escalated, What::Escalated, Some(&reason), event);
        }
        Some(Escalate::Queue(queue)) => match target(draft, queue) {
            Ok(target) => move_to(draft, target, &reason),
            Err(not) => {
                let reason = format!("{reason}, and {not}");
                end(draft, ItemStatus::Failed, What::Failed, Some(&reason), None);
            }
        },
    }
}

fn target<'a>(draft: &Draft<'a>, queue: &Name) -> Result<&'a QueueConfig, String> {
    let item = &draft.work.item;
    if item.queue == *queue || item.escalated_from.contains(queue) {
        return Err(format!("it has already been in the escalation queue {queue}"));
    }
    let target = draft.escalates_to.filter(|target| target.name == *queue);
    target.ok_or_else(|| format!("the escalation queue {queue} does not exist"))
}

fn move_to<'a>(draft: &mut Draft<'a>, target: &'a QueueConfig, reason: &str) {
    cut_off(draft, reason);
    let item = &mut draft.work.item;
    item.escalated_from.push(item.queue.clone());
    item.enter(target, draft.now);
    item.overlap = item.overlap.min(target.max_attempts_total);
    item.class = Class::Reopened;
    draft.reopened = true;
    draft.queue = target;
    // One step moves an item at most once; the escalation target of the new queue is not loaded.
    draft.escalates_to = None;
    draft.write(What::Moved, None, None, Some(reason));
    look(draft);
}

/// Closes every open assignment and frees every reserved slot.
fn cut_off(draft: &mut Draft<'_>, reason: &str) {
    let concerned = |draft: &Draft<'_>| -> Vec<AssignmentId> {
        let left = |one: &&Assignment| match one.status {
            AssignmentStatus::Pending | AssignmentStatus::InProgress => true,
            AssignmentStatus::Expired | AssignmentStatus::Skipped => one.has_place(),
            AssignmentStatus::Completed => false,
        };
        draft.work.assignments.values().filter(left).map(|one| one.id).collect()
    };
    let now = draft.now;
    for id in concerned(draft) {
        let open = draft.work.assignments.get(&id).is_some_and(|one| one.status.is_open());
        let what = if open { What::CutOff } else { What::Reopened };
        draft.change_one(id, what, Some(reason), |one| {
            one.place = Place::GivenOn;
            one.deadline = None;
            if open {
                one.status = AssignmentStatus::Expired;
                one.expired_at = Some(now);
            }
        });
    }
}

fn end(draft: &mut Draft<'_>, status: ItemStatus, what: What, reason: Option<&str>, event: Option<Name>) {
    if status != ItemStatus::Done {
        cut_off(draft, reason.unwrap_or("the item was withdrawn"));
    }
    let item = &mut draft.work.item;
    item.status = status;
    item.reason = reason.map(str::to_owned);
    item.ended_at = Some(draft.now);
    item.due_at = None;
    draft.write(what, None, None, reason);
    draft.told = Some(Told::of(&draft.work, event));
}
