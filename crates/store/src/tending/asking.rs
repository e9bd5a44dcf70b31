//! Commands to items, and their replies.

use millstream_core::assignment::{Input, NotAdopted, QueueConfig, Refusal, Told, Waiter, Work};
use millstream_core::id::AssignmentId;
use millstream_core::problem::Problem;
use millstream_core::raw::RawJson;

use crate::assignments::Due;
use crate::item_store::ItemRef;

/// A command to one item.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The item.
    pub of: ItemRef,
    pub what: What,
    /// The validation result of an answer that could not be validated within the batch.
    pub judged: Option<JudgedAnswer>,
}

/// The validation result of an answer, with the rules that were applied: it counts as long as the rules are
/// the same.
#[derive(Debug, Clone)]
pub struct JudgedAnswer {
    pub queue: Box<QueueConfig>,
    pub payload: RawJson,
    pub problems: Vec<Problem>,
}

#[derive(Debug, Clone)]
pub enum What {
    Input(Input),
    /// The waiting action has a new lease. If the item has ended, the caller reports its outcome.
    Adopt(Waiter),
}

impl Ask {
    pub fn input(of: ItemRef, input: Input) -> Self {
        Self { of, what: What::Input(input), judged: None }
    }

    pub fn adopt(of: ItemRef, waiter: Waiter) -> Self {
        Self { of, what: What::Adopt(waiter), judged: None }
    }

    /// The command for a passed deadline.
    pub fn due(due: &Due, next: AssignmentId) -> Self {
        let input = match due.assignment {
            Some(assignment) => Input::Expire { assignment, next },
            None => Input::Overdue,
        };
        Self::input(ItemRef::Item(due.item.clone()), input)
    }
}

#[derive(Debug, Clone)]
pub enum Tended {
    Done {
        /// The item afterwards.
        work: Box<Work>,
        /// Nothing was written: it was done before.
        repeated: bool,
        /// The outcome for the adopting action, reported by the caller. Other actions are settled with the
        /// write.
        told: Option<Told>,
    },
    Refused {
        refusal: Refusal,
        work: Box<Work>,
    },
    /// The answer is invalid, and the assignment is unchanged.
    Invalid(Vec<Problem>),
    /// Validation takes long: the caller validates by these rules and sends the command again.
    Unjudged {
        queue: Box<QueueConfig>,
        payload: RawJson,
    },
    NotAdopted(NotAdopted),
    NoSuchItem,
}
