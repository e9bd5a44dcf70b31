//! Commands to items, and their replies.

use millstream_model::id::AssignmentId;
use millstream_model::problem::ValidationProblem;
use millstream_model::raw::RawJson;
use millstream_people::assignment::{
    AdoptionRefusal, ItemAggregate, ItemInput, ItemOutcome, ItemRefusal, ItemWaiter, QueueConfig,
};

use crate::assignments::OverdueItem;
use crate::item_store::ItemRef;

/// A command to one item.
#[derive(Debug, Clone)]
pub struct ItemCommand {
    /// The item.
    pub of: ItemRef,
    pub what: ItemCommandKind,
    /// The validation result of an answer that could not be validated within the batch.
    pub judged: Option<ValidatedAnswer>,
}

/// The validation result of an answer, with the rules that were applied: it counts as long as the rules are
/// the same.
#[derive(Debug, Clone)]
pub struct ValidatedAnswer {
    pub queue: Box<QueueConfig>,
    pub payload: RawJson,
    pub problems: Vec<ValidationProblem>,
}

#[derive(Debug, Clone)]
pub enum ItemCommandKind {
    Input(ItemInput),
    /// The waiting action has a new lease. If the item has ended, the caller reports its outcome.
    Adopt(ItemWaiter),
}

impl ItemCommand {
    pub fn for_input(of: ItemRef, input: ItemInput) -> Self {
        Self { of, what: ItemCommandKind::Input(input), judged: None }
    }

    pub fn for_adoption(of: ItemRef, waiter: ItemWaiter) -> Self {
        Self { of, what: ItemCommandKind::Adopt(waiter), judged: None }
    }

    /// The command for a passed deadline.
    pub fn for_deadline(due: &OverdueItem, next: AssignmentId) -> Self {
        let input = match due.assignment {
            Some(assignment) => ItemInput::Expire { assignment, next },
            None => ItemInput::Overdue,
        };
        Self::for_input(ItemRef::Item(due.item.clone()), input)
    }
}

#[derive(Debug, Clone)]
pub enum ItemReply {
    Done {
        /// The item afterwards.
        work: Box<ItemAggregate>,
        /// Nothing was written: it was done before.
        repeated: bool,
        /// The outcome for the adopting action, reported by the caller. Other actions are settled with the
        /// write.
        told: Option<ItemOutcome>,
    },
    Refused {
        refusal: ItemRefusal,
        work: Box<ItemAggregate>,
    },
    /// The answer is invalid, and the assignment is unchanged.
    Invalid(Vec<ValidationProblem>),
    /// Validation takes long: the caller validates by these rules and sends the command again.
    Unjudged {
        queue: Box<QueueConfig>,
        payload: RawJson,
    },
    NotAdopted(AdoptionRefusal),
    NoSuchItem,
}
