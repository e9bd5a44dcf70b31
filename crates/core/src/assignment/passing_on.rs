//! Who gets the place of an assignment that ended without being completed.

use super::ending::{self, Why};
use super::given::Place;
use super::logbook::What;
use super::next::Class;
use super::status::QueueState;
use super::step::Draft;
use crate::id::{AssignmentId, PersonId};

/// Who a place is given on to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Receiver {
    /// Whoever comes: it is an opening again, before those that nobody has had.
    Anyone,
    /// The person who had it; it is reserved for them.
    Same(PersonId, AssignmentId),
    /// A person that an operator chose.
    Chosen(PersonId, AssignmentId),
}

impl Receiver {
    pub(super) fn named(person: Option<&PersonId>, next: AssignmentId) -> Self {
        person.map_or(Self::Anyone, |person| Self::Chosen(person.clone(), next))
    }
}

/// The same person, as long as they may have it again. A paused queue reserves nothing: time would run out for
/// people who are not to work.
pub(super) fn after_expiry(draft: &Draft<'_>, id: AssignmentId, next: AssignmentId) -> Receiver {
    let Some(person) = draft.work.assignments.get(&id).map(|one| one.person.clone()) else {
        return Receiver::Anyone;
    };
    let again = draft.state == QueueState::Active
        && draft.queue.people.includes(&person)
        && !draft.work.bars(&person, draft.queue);
    if again { Receiver::Same(person, next) } else { Receiver::Anyone }
}

/// Gives a place on, or gives the item up if that is not possible any more. A correction has no place.
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
