//! Selection of the next assignment: the order of openings, eligibility, and which caller gets which opening.
//!
//! A store reads openings in order and locks their items; this module distributes them among the waiting
//! callers in order of arrival, with the same result as if each caller had come alone.

use std::collections::{BTreeMap, BTreeSet};

use millstream_model::id::{Name, PersonId};
use serde::{Deserialize, Serialize};

use super::queue::QueueConfig;
use super::status::QueueState;

/// Openings that were assigned before precede fresh ones, so that started items are finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OpeningClass {
    Reopened,
    Fresh,
}

impl OpeningClass {
    pub const fn as_number(self) -> i16 {
        match self {
            Self::Reopened => 0,
            Self::Fresh => 1,
        }
    }
}

/// Position of openings in their queue: the smallest is next. The sequence number is drawn when the item is
/// imported and whenever one of its slots is freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueuePosition {
    /// The priority, negated.
    pub urgency: i32,
    pub class: OpeningClass,
    pub position: i64,
}

/// The change of an item's openings; all openings of an item share one queue position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemOpening {
    pub change: OpeningChange,
    /// Number of openings.
    pub needs: usize,
    /// Persons who cannot be assigned one.
    pub barred: BTreeSet<PersonId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpeningChange {
    /// There are none, and there were none.
    None,
    /// They take a new position.
    Place,
    /// They keep their position.
    Update,
    Close,
}

/// A person with their skills, as known to the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersonProfile {
    pub person: PersonId,
    pub skills: BTreeSet<Name>,
    pub state: QueueState,
}

impl PersonProfile {
    /// The profile of a person without a stored record.
    pub fn unknown(person: PersonId) -> Self {
        Self { person, skills: BTreeSet::new(), state: QueueState::Active }
    }
}

/// Number of assignments a person has in one queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PersonLoad {
    pub open: u64,
    pub completed: u64,
}

/// Why a person gets no assignment; the most specific reason first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PersonIdleReason {
    /// No matching opening now.
    NothingOpen,
    /// Limit of open assignments reached.
    OpenLimit,
    /// Limit of assignments over all time reached.
    TotalLimit,
    /// A skill required by the queue is missing.
    Skills,
    NotEligible,
    QueuePaused,
    PersonPaused,
    NoQueue,
}

/// Whether a person may be assigned an item of a queue.
pub fn check_eligibility(
    queue: &QueueConfig,
    state: QueueState,
    profile: &PersonProfile,
    load: PersonLoad,
) -> Result<(), PersonIdleReason> {
    if profile.state == QueueState::Paused {
        return Err(PersonIdleReason::PersonPaused);
    }
    if state == QueueState::Paused {
        return Err(PersonIdleReason::QueuePaused);
    }
    if !queue.people.includes(&profile.person) {
        return Err(PersonIdleReason::NotEligible);
    }
    if !queue.skills.is_subset(&profile.skills) {
        return Err(PersonIdleReason::Skills);
    }
    if queue.per_person.total.is_some_and(|most| load.open + load.completed >= u64::from(most)) {
        return Err(PersonIdleReason::TotalLimit);
    }
    if load.open >= u64::from(queue.per_person.open) {
        return Err(PersonIdleReason::OpenLimit);
    }
    Ok(())
}

/// A person who asks for work, with the queues they may work in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskingPerson {
    pub person: PersonId,
    pub skills: BTreeSet<Name>,
    pub queues: BTreeSet<Name>,
}

/// The openings of one item that can be assigned now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpeningCandidate {
    pub queue: Name,
    pub skills: BTreeSet<Name>,
    pub needs: usize,
    pub barred: BTreeSet<PersonId>,
    pub standing: QueuePosition,
}

impl OpeningCandidate {
    pub fn suits_person(&self, asking: &AskingPerson) -> bool {
        asking.queues.contains(&self.queue)
            && !self.barred.contains(&asking.person)
            && self.skills.is_subset(&asking.skills)
    }
}

/// Selects a candidate for each caller, as an index into `candidates`.
pub fn select_openings(callers: &[AskingPerson], candidates: &[OpeningCandidate]) -> Vec<Option<usize>> {
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    order.sort_by_key(|at| candidates.get(*at).map(|candidate| candidate.standing));
    let mut left: Vec<usize> = candidates.iter().map(|candidate| candidate.needs).collect();
    let mut taken: BTreeMap<usize, BTreeSet<&PersonId>> = BTreeMap::new();
    callers
        .iter()
        .map(|caller| {
            let found = order.iter().copied().find(|at| {
                let open = left.get(*at).is_some_and(|left| *left > 0);
                let again = taken.get(at).is_some_and(|people| people.contains(&caller.person));
                open && !again && candidates.get(*at).is_some_and(|candidate| candidate.suits_person(caller))
            })?;
            if let Some(left) = left.get_mut(found) {
                *left -= 1;
            }
            taken.entry(found).or_default().insert(&caller.person);
            Some(found)
        })
        .collect()
}
