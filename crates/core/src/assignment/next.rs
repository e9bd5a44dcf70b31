//! Who gets what next: the order of openings, who may have them, and which caller is given which.
//!
//! A store finds openings in order and locks their items; which of its callers gets which of those is decided
//! here, caller by caller in the order in which they came, as if each had come alone.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::queue::QueueConfig;
use super::status::QueueState;
use crate::id::{Name, PersonId};

/// Openings that somebody had before come before those that nobody had, so that what was begun is finished.
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

/// Where openings stand in the line of their queue: the smallest is next. A position is taken from one growing
/// sequence when the item is imported and whenever one of its places is open again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Standing {
    /// The priority, negated.
    pub urgency: i32,
    pub class: Class,
    pub position: i64,
}

/// What becomes of an item's openings; they stand in the line together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
    pub change: OpeningChange,
    /// How many there are.
    pub needs: usize,
    /// Who may not have one.
    pub barred: BTreeSet<PersonId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpeningChange {
    /// There are none, and there were none.
    None,
    /// They take a new position.
    Place,
    /// They stay where they are.
    Update,
    Close,
}

/// Somebody who works, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    pub person: PersonId,
    pub skills: BTreeSet<Name>,
    pub state: QueueState,
}

impl Profile {
    /// Of somebody who was never heard of.
    pub fn unknown(person: PersonId) -> Self {
        Self { person, skills: BTreeSet::new(), state: QueueState::Active }
    }
}

/// What a person has of one queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    pub open: u64,
    pub completed: u64,
}

/// Why somebody is given nothing, the nearest reason first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Idle {
    /// There is nothing for them now; later there may be.
    NothingOpen,
    /// They have as many open as they may.
    OpenLimit,
    /// They have had as many as they may.
    TotalLimit,
    /// They lack a skill that everybody in the queue needs.
    Skills,
    NotEligible,
    QueuePaused,
    PersonPaused,
    NoQueue,
}

/// Whether a person may be given something of a queue.
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

/// Somebody who asks for work, and where they may get it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asking {
    pub person: PersonId,
    pub skills: BTreeSet<Name>,
    pub queues: BTreeSet<Name>,
}

/// Openings of one item that may be given out now.
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

/// Which candidate each caller is given, by its place in `candidates`.
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
