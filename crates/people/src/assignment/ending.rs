//! How items end: done, failed, withdrawn, or escalated to another queue or by an event to the waiting
//! execution.

use std::fmt;

use millstream_model::id::{AssignmentId, Name};

use super::agreement::AnswerAgreement;
use super::item_assignment::{ItemAssignment, SlotState};
use super::item_log::ItemLogKind;
use super::item_outcome::ItemOutcome;
use super::queue::{EligiblePersons, EscalationTarget, QueueConfig};
use super::select::OpeningClass;
use super::status::{AssignmentStatus, ItemStatus};
use super::step::ItemStepDraft;

/// Why an item cannot be completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemFailureReason {
    /// The queue's limit of attempts is reached.
    Attempts,
    /// Every eligible person has already had the item.
    NobodyLeft,
    /// The due time passed.
    Overdue,
}

impl fmt::Display for ItemFailureReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Attempts => "max_attempts_total is reached",
            Self::NobodyLeft => "no eligible person is left",
            Self::Overdue => "it was not done in time",
        })
    }
}

/// Ends the item if its assignments require it.
pub(super) fn end_if_decided(draft: &mut ItemStepDraft<'_>) {
    let work = &draft.work;
    if work.item.status.is_ended() {
        return;
    }
    if work.completed_count() >= usize::try_from(work.item.overlap).unwrap_or(usize::MAX) {
        draft.work.item.agreement = Some(AnswerAgreement::from_answers(&draft.work, &draft.queue.agreement));
        return end_item(draft, ItemStatus::Done, ItemLogKind::Done, None, None);
    }
    let nobody = match &draft.queue.people {
        EligiblePersons::Anyone => false,
        EligiblePersons::Listed(people) => people.iter().all(|person| work.is_barred(person, draft.queue)),
    };
    // A person with an open assignment may lose it and be assigned the item once more.
    let with_somebody = work.assignments.values().any(|one| one.status.is_open());
    if work.opening_count() > 0 && !with_somebody && nobody {
        fail_or_escalate(draft, ItemFailureReason::NobodyLeft);
    }
}

/// A correction was submitted: recomputes the agreement of the answers.
pub(super) fn recompute_agreement(draft: &mut ItemStepDraft<'_>) {
    if draft.work.item.agreement.is_some() {
        draft.work.item.agreement = Some(AnswerAgreement::from_answers(&draft.work, &draft.queue.agreement));
    }
}

pub(super) fn withdraw_item(draft: &mut ItemStepDraft<'_>, reason: Option<&str>) {
    end_item(draft, ItemStatus::Withdrawn, ItemLogKind::Withdrawn, reason, None);
}

/// The item fails, unless its queue escalates it.
pub(super) fn fail_or_escalate(draft: &mut ItemStepDraft<'_>, why: ItemFailureReason) {
    let reason = why.to_string();
    match &draft.queue.escalate {
        None => end_item(draft, ItemStatus::Failed, ItemLogKind::Failed, Some(&reason), None),
        Some(EscalationTarget::Event(event)) => {
            let event = Some(event.clone());
            end_item(draft, ItemStatus::Escalated, ItemLogKind::Escalated, Some(&reason), event);
        }
        Some(EscalationTarget::Queue(queue)) => match escalation_target(draft, queue) {
            Ok(target) => move_to_queue(draft, target, &reason),
            Err(not) => {
                let reason = format!("{reason}, and {not}");
                end_item(draft, ItemStatus::Failed, ItemLogKind::Failed, Some(&reason), None);
            }
        },
    }
}

fn escalation_target<'a>(draft: &ItemStepDraft<'a>, queue: &Name) -> Result<&'a QueueConfig, String> {
    let item = &draft.work.item;
    if item.queue == *queue || item.escalated_from.contains(queue) {
        return Err(format!("it has already been in the escalation queue {queue}"));
    }
    let target = draft.escalates_to.filter(|target| target.name == *queue);
    target.ok_or_else(|| format!("the escalation queue {queue} does not exist"))
}

fn move_to_queue<'a>(draft: &mut ItemStepDraft<'a>, target: &'a QueueConfig, reason: &str) {
    close_assignments(draft, reason);
    let item = &mut draft.work.item;
    item.escalated_from.push(item.queue.clone());
    item.enter(target, draft.now);
    item.overlap = item.overlap.min(target.max_attempts_total);
    item.class = OpeningClass::Reopened;
    draft.reopened = true;
    draft.queue = target;
    // One step moves an item at most once; the escalation target of the new queue is not loaded.
    draft.escalates_to = None;
    draft.write_log(ItemLogKind::Moved, None, None, Some(reason));
    end_if_decided(draft);
}

/// Closes every open assignment and frees every reserved slot.
fn close_assignments(draft: &mut ItemStepDraft<'_>, reason: &str) {
    let concerned = |draft: &ItemStepDraft<'_>| -> Vec<AssignmentId> {
        let left = |one: &&ItemAssignment| match one.status {
            AssignmentStatus::Pending | AssignmentStatus::InProgress => true,
            AssignmentStatus::Expired | AssignmentStatus::Skipped => one.has_slot(),
            AssignmentStatus::Completed => false,
        };
        draft.work.assignments.values().filter(left).map(|one| one.id).collect()
    };
    let now = draft.now;
    for id in concerned(draft) {
        let open = draft.work.assignments.get(&id).is_some_and(|one| one.status.is_open());
        let what = if open { ItemLogKind::CutOff } else { ItemLogKind::Reopened };
        draft.change_assignment(id, what, Some(reason), |one| {
            one.place = SlotState::GivenOn;
            one.deadline = None;
            if open {
                one.status = AssignmentStatus::Expired;
                one.expired_at = Some(now);
            }
        });
    }
}

fn end_item(
    draft: &mut ItemStepDraft<'_>,
    status: ItemStatus,
    what: ItemLogKind,
    reason: Option<&str>,
    event: Option<Name>,
) {
    if status != ItemStatus::Done {
        close_assignments(draft, reason.unwrap_or("the item was withdrawn"));
    }
    let item = &mut draft.work.item;
    item.status = status;
    item.reason = reason.map(str::to_owned);
    item.ended_at = Some(draft.now);
    item.due_at = None;
    draft.write_log(what, None, None, reason);
    draft.told = Some(ItemOutcome::from_work(&draft.work, event));
}
