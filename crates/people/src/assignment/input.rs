//! Inputs: what can happen to an item and its assignments.

use millstream_model::id::{AssignmentId, PersonId};
use millstream_model::raw::RawJson;
use millstream_model::words;

/// One input. The caller draws the ids of assignments that may follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ItemInput {
    /// Assigns an opening of the item to a person.
    Assign {
        person: PersonId,
        next: AssignmentId,
    },
    Start {
        assignment: AssignmentId,
        person: PersonId,
    },
    /// An answer that passed validation.
    Submit {
        assignment: AssignmentId,
        person: PersonId,
        answer: RawJson,
    },
    Skip {
        assignment: AssignmentId,
        person: PersonId,
        reason: Option<String>,
    },
    /// The person is still working; the full timeout starts over.
    Heartbeat {
        assignment: AssignmentId,
        person: PersonId,
    },
    /// The deadline of the assignment has passed.
    Expire {
        assignment: AssignmentId,
        next: AssignmentId,
    },
    /// An operator takes an open assignment from its person; the slot goes to another person or becomes an
    /// opening.
    Revoke {
        assignment: AssignmentId,
        to: Option<PersonId>,
        next: AssignmentId,
        by: Option<String>,
    },
    /// An operator reassigns the slot of an expired or skipped assignment: to a person, or as an opening.
    Reassign {
        assignment: AssignmentId,
        to: Option<PersonId>,
        next: AssignmentId,
        by: Option<String>,
    },
    /// A completed assignment is to be corrected, by its person or another one.
    Correct {
        assignment: AssignmentId,
        person: Option<PersonId>,
        next: AssignmentId,
        by: Option<String>,
    },
    /// An operator or the waiting execution withdraws the item.
    Withdraw {
        reason: Option<String>,
        by: Option<String>,
    },
    /// The due time of the item has passed.
    Overdue,
}

words! {
    /// The kinds of input, by name.
    ItemInputKind {
        Assign = "assign",
        Start = "start",
        Submit = "submit",
        Skip = "skip",
        Heartbeat = "heartbeat",
        Expire = "expire",
        Revoke = "revoke",
        Reassign = "reassign",
        Correct = "correct",
        Withdraw = "withdraw",
        Overdue = "overdue",
    }
}

impl ItemInput {
    pub const fn kind(&self) -> ItemInputKind {
        match self {
            Self::Assign { .. } => ItemInputKind::Assign,
            Self::Start { .. } => ItemInputKind::Start,
            Self::Submit { .. } => ItemInputKind::Submit,
            Self::Skip { .. } => ItemInputKind::Skip,
            Self::Heartbeat { .. } => ItemInputKind::Heartbeat,
            Self::Expire { .. } => ItemInputKind::Expire,
            Self::Revoke { .. } => ItemInputKind::Revoke,
            Self::Reassign { .. } => ItemInputKind::Reassign,
            Self::Correct { .. } => ItemInputKind::Correct,
            Self::Withdraw { .. } => ItemInputKind::Withdraw,
            Self::Overdue => ItemInputKind::Overdue,
        }
    }
}
