//! Reassignment: which person gets the slot of an assignment that ended without completion.

use millstream_model::id::{AssignmentId, PersonId};

use super::ending::{self, ItemFailureReason};
use super::item_assignment::SlotState;
use super::item_log::ItemLogKind;
use super::select::OpeningClass;
use super::status::QueueState;
use super::step::ItemStepDraft;

/// The receiver of a freed slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SlotReceiver {
    /// The next person who asks: the slot becomes an opening, ahead of openings that were never assigned.
    Anyone,
    /// The previous person: the slot is reserved for them.
    Same(PersonId, AssignmentId),
    /// A person chosen by an operator.
    Chosen(PersonId, AssignmentId),
}

impl SlotReceiver {
    pub(super) fn from_person(person: Option<&PersonId>, next: AssignmentId) -> Self {
        person.map_or(Self::Anyone, |person| Self::Chosen(person.clone(), next))
    }
}

/// The same person while the queue's limits permit another attempt. A paused queue reserves nothing: the
/// deadline would pass for persons who are not supposed to work.
pub(super) fn receiver_after_expiry(
    draft: &ItemStepDraft<'_>,
    id: AssignmentId,
    next: AssignmentId,
) -> SlotReceiver {
    let Some(person) = draft.work.assignments.get(&id).map(|one| one.person.clone()) else {
        return SlotReceiver::Anyone;
    };
    let again = draft.state == QueueState::Active
        && draft.queue.people.includes(&person)
        && !draft.work.is_barred(&person, draft.queue);
    if again { SlotReceiver::Same(person, next) } else { SlotReceiver::Anyone }
}

/// Reassigns the slot, or gives the item up if its attempts are exhausted. A correction has no slot.
pub(super) fn reassign_slot(draft: &mut ItemStepDraft<'_>, id: AssignmentId, receiver: SlotReceiver) {
    let Some(one) = draft.work.assignments.get_mut(&id) else { return };
    if !one.has_slot() || draft.work.item.status.is_ended() {
        return;
    }
    one.place = SlotState::GivenOn;
    draft.mark_changed(id);
    if draft.work.attempt_count() + draft.work.opening_count() > draft.max_attempts() {
        draft.write_log(ItemLogKind::Reopened, Some(id), None, None);
        return ending::fail_or_escalate(draft, ItemFailureReason::Attempts);
    }
    match receiver {
        SlotReceiver::Same(person, next) => {
            draft.add_assignment(next, &person, ItemLogKind::Reserved, Some(id))
        }
        SlotReceiver::Chosen(person, next) => {
            draft.add_assignment(next, &person, ItemLogKind::Reassigned, Some(id))
        }
        SlotReceiver::Anyone => {
            draft.work.item.class = OpeningClass::Reopened;
            draft.reopened = true;
            draft.write_log(ItemLogKind::Reopened, Some(id), None, None);
        }
    }
}
