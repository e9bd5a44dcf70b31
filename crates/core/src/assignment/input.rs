//! What can happen to an item and its assignments.

use crate::id::{AssignmentId, PersonId};
use crate::raw::RawJson;
use crate::status::words;

/// One thing that happens. Ids of assignments that may come of it are drawn by the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A person is given an opening of the item.
    Assign {
        person: PersonId,
        next: AssignmentId,
    },
    Start {
        assignment: AssignmentId,
        person: PersonId,
    },
    /// An answer that was found valid.
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
    /// The person is still at it, and gets the full time again.
    Heartbeat {
        assignment: AssignmentId,
        person: PersonId,
    },
    /// Its deadline has passed.
    Expire {
        assignment: AssignmentId,
        next: AssignmentId,
    },
    /// An operator takes an open assignment away from its person, for another one or for whoever comes.
    Revoke {
        assignment: AssignmentId,
        to: Option<PersonId>,
        next: AssignmentId,
        by: Option<String>,
    },
    /// An operator gives on the place of one that expired or was skipped: to a person, or as an opening.
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
    /// Nobody wants the item any more.
    Withdraw {
        reason: Option<String>,
        by: Option<String>,
    },
    /// The item's own time is over.
    Overdue,
}

words! {
    /// The inputs, by name.
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
