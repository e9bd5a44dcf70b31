//! Refusals: why an input is illegal, with the state that forbids it.

use millstream_model::id::{AssignmentId, PersonId};
use millstream_model::time::Timestamp;

use super::input::ItemInputKind;
use super::status::{AssignmentStatus, ItemStatus};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ItemRefusal {
    #[error("cannot {input}: the assignment is {status}")]
    Assignment { status: AssignmentStatus, input: ItemInputKind },
    #[error("cannot {input}: the item is {status}")]
    Item { status: ItemStatus, input: ItemInputKind },
    #[error("the item has no assignment {0}")]
    Unknown(AssignmentId),
    #[error("the assignment does not belong to {0}")]
    NotTheirs(PersonId),
    #[error("cannot {input}: the assignment is {status} with a different answer")]
    OtherAnswer { status: AssignmentStatus, input: ItemInputKind },
    #[error("cannot {input} before the deadline {at} (now {now})")]
    NotDue { input: ItemInputKind, at: Timestamp, now: Timestamp },
    #[error("cannot {input}: there is no deadline")]
    NoDeadline { input: ItemInputKind },
    #[error("this queue requires a reason for skipping")]
    ReasonNeeded,
    #[error("the reason is longer than {0} bytes")]
    ReasonTooLong(usize),
    #[error("cannot {input}: the item has no opening")]
    NoOpening { input: ItemInputKind },
    #[error("cannot {input}: {person} has already had the item")]
    Barred { input: ItemInputKind, person: PersonId },
    #[error("cannot {input}: {person} is not eligible for the queue")]
    NotEligible { input: ItemInputKind, person: PersonId },
    #[error("cannot {input}: the slot has already been reassigned")]
    GivenOn { input: ItemInputKind },
    #[error("cannot {input}: the item was assigned {attempts} times, which is the limit")]
    Exhausted { input: ItemInputKind, attempts: usize },
    #[error("cannot {input}: the open assignment {0} already corrects it", input = ItemInputKind::Correct)]
    BeingCorrected(AssignmentId),
}
