//! Selection of the next assignment: the order of openings, eligibility, and which caller gets which opening.
//!
//! A store reads openings in order and locks their items; this module distributes them among the waiting
//! callers in order of arrival, with the same result as if each caller had come alone.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::queue::QueueConfig;
use super::status::QueueState;
use crate::id::{Name, PersonId};

/// Openings that were assigned before precede fresh ones, so that started items are finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    Reopened,
    Fresh,
}

impl Class {
    pub const fn number(self) -> i16 {
        match self {
            Self::Reopened => 0,
            Self::Fresh => 1,
        }
    }
}

/// Position of openings in their queue: the smallest is next. The sequence number is drawn when the item is
/// imported and whenever one of its slots is freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Standing {
    /// The priority, negated.
    pub urgency: i32,
    pub class: Class,
    pub position: i64,
}

/// The change of an item's openings; all openings of an item share one queue position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
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
pub struct Profile {
    pub person: PersonId,
    pub skills: BTreeSet<Name>,
    pub state: QueueState,
}

impl Profile {
    /// The profile of a person without a stored record.
    pub fn unknown(person: PersonId) -> Self {
        Self { person, skills: BTreeSet::new(), state: QueueState::Active }
    }
}

/// Number of assignments a person has in one queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    pub open: u64,
    pub completed: u64,
}

/// Why a person gets no assignment; the most specific reason first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Idle {
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
pub fn eligible(queue: &QueueConfig, state: QueueState, profile: &Profile, load: Load) -> Result<(), Idle> {
    if profile.state == QueueState::Paused {
        return Err(Idle::PersonPaused);
    }
    if state == QueueState::Paused {
        return Err(Idle::QueuePaused);
    }
    if !queue.people.includes(&profile.person) {
        return Err(Idle::NotEligible);
    }
    if !queue.skills.is_subset(&profile.skills) {
        return Err(Idle::Skills);
    }
    if queue.per_person.total.is_some_and(|most| load.open + load.completed >= u64::from(most)) {
        return Err(Idle::TotalLimit);
    }
    if load.open >= u64::from(queue.per_person.open) {
        return Err(Idle::OpenLimit);
    }
    Ok(())
}

/// A person who asks for work, with the queues they may work in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asking {
    pub person: PersonId,
    pub skills: BTreeSet<Name>,
    pub queues: BTreeSet<Name>,
}

/// The openings of one item that can be assigned now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    pub queue: Name,
    pub skills: BTreeSet<Name>,
    pub needs: usize,
    pub barred: BTreeSet<PersonId>,
    pub standing: Standing,
}

impl Candidate {
    pub fn suits(&self, asking: &Asking) -> bool {
        asking.queues.contains(&self.queue)
            && !self.barred.contains(&asking.person)
            && self.skills.is_subset(&asking.skills)
    }
}

/// Selects a candidate for each caller, as an index into `candidates`.
pub fn hand_out(callers: &[Asking], candidates: &[Candidate]) -> Vec<Option<usize>> {
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
                open && !again && candidates.get(*at).is_some_and(|candidate| candidate.suits(caller))
            })?;
            if let Some(left) = left.get_mut(found) {
                *left -= 1;
            }
            taken.entry(found).or_default().insert(&caller.person);
            Some(found)
        })
        .collect()
}
