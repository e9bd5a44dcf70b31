//! Why something is not possible: what it is about, and the state that it is in.

use super::input::InputKind;
use super::status::{AssignmentStatus, ItemStatus};
use crate::id::{AssignmentId, PersonId};
use crate::time::Timestamp;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("{input} is not possible: the assignment is {status}")]
    Assignment { status: AssignmentStatus, input: InputKind },
    #[error("{input} is not possible: the item is {status}")]
    Item { status: ItemStatus, input: InputKind },
    #[error("the item has no assignment {0}")]
    Unknown(AssignmentId),
    #[error("the assignment is not {0}'s")]
    NotTheirs(PersonId),
    #[error("{input} is not possible: the assignment is {status} with another answer")]
    OtherAnswer { status: AssignmentStatus, input: InputKind },
    #[error("{input} is not possible: the time is over at {at} only, it is {now}")]
    NotDue { input: InputKind, at: Timestamp, now: Timestamp },
    #[error("{input} is not possible: there is no deadline")]
    NoDeadline { input: InputKind },
    #[error("this queue wants a reason for skipping")]
    ReasonNeeded,
    #[error("the reason is longer than {0} bytes")]
    ReasonTooLong(usize),
    #[error("{input} is not possible: the item has no opening")]
    NoOpening { input: InputKind },
    #[error("{input} is not possible: {person} has had the item")]
    Barred { input: InputKind, person: PersonId },
    #[error("{input} is not possible: {person} is not among the people of the queue")]
    NotEligible { input: InputKind, person: PersonId },
    #[error("{input} is not possible: the place was given on already")]
    GivenOn { input: InputKind },
    #[error("{input} is not possible: the item was given to people {attempts} times, more is not allowed")]
    Exhausted { input: InputKind, attempts: usize },
    #[error("{input} is not possible: {0} corrects the same assignment and is open", input = InputKind::Correct)]
    BeingCorrected(AssignmentId),
}
