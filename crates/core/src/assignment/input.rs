//! Inputs: what can happen to an item and its assignments.

use crate::id::{AssignmentId, PersonId};
use crate::raw::RawJson;
use crate::status::words;

/// One input. The caller draws the ids of assignments that may follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
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
    InputKind {
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

impl Input {
    pub const fn kind(&self) -> InputKind {
        match self {
            Self::Assign { .. } => InputKind::Assign,
            Self::Start { .. } => InputKind::Start,
            Self::Submit { .. } => InputKind::Submit,
            Self::Skip { .. } => InputKind::Skip,
            Self::Heartbeat { .. } => InputKind::Heartbeat,
            Self::Expire { .. } => InputKind::Expire,
            Self::Revoke { .. } => InputKind::Revoke,
            Self::Reassign { .. } => InputKind::Reassign,
            Self::Correct { .. } => InputKind::Correct,
            Self::Withdraw { .. } => InputKind::Withdraw,
            Self::Overdue => InputKind::Overdue,
        }
    }
}
