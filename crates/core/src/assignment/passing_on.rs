//! Reassignment: which person gets the slot of an assignment that ended without completion.

use super::ending::{self, Why};
use super::given::Place;
use super::logbook::What;
use super::next::Class;
use super::status::QueueState;
use super::step::Draft;
use crate::id::{AssignmentId, PersonId};

/// The receiver of a freed slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Receiver {
    /// The next person who asks: the slot becomes an opening, ahead of openings that were never assigned.
    Anyone,
    /// The previous person: the slot is reserved for them.
    Same(PersonId, AssignmentId),
    /// A person chosen by an operator.
    Chosen(PersonId, AssignmentId),
}

impl Receiver {
    pub(super) fn named(person: Option<&PersonId>, next: AssignmentId) -> Self {
        person.map_or(Self::Anyone, |person| Self::Chosen(person.clone(), next))
    }
}

/// The same person while the queue's limits permit another attempt. A paused queue reserves nothing: the
/// deadline would pass for persons who are not supposed to work.
pub(super) fn after_expiry(draft: &Draft<'_>, id: AssignmentId, next: AssignmentId) -> Receiver {
    let Some(person) = draft.work.assignments.get(&id).map(|one| one.person.clone()) else {
        return Receiver::Anyone;
    };
    let again = draft.state == QueueState::Active
        && draft.queue.people.includes(&person)
        && !draft.work.bars(&person, draft.queue);
    if again { Receiver::Same(person, next) } else { Receiver::Anyone }
}

/// Reassigns the slot, or gives the item up if its attempts are exhausted. A correction has no slot.
pub(super) fn pass_on(draft: &mut Draft<'_>, id: AssignmentId, receiver: Receiver) {
    let Some(one) = draft.work.assignments.get_mut(&id) else { return };
    if !one.has_place() || draft.work.item.status.is_ended() {
        return;
    }
    one.place = Place::GivenOn;
    draft.touch(id);
    if draft.work.attempts() + draft.work.needs() > draft.most() {
        draft.write(What::Reopened, Some(id), None, None);
        return ending::give_up(draft, Why::Attempts);
    }
    match receiver {
        Receiver::Same(person, next) => draft.give(next, &person, What::Reserved, Some(id)),
        Receiver::Chosen(person, next) => draft.give(next, &person, What::Reassigned, Some(id)),
        Receiver::Anyone => {
            draft.work.item.class = Class::Reopened;
            draft.reopened = true;
            draft.write(What::Reopened, Some(id), None, None);
        }
    }
}
