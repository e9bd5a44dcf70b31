//! What can be asked for, and what comes of it.

use millstream_core::assignment::{Input, NotAdopted, QueueConfig, Refusal, Told, Waiter, Work};
use millstream_core::id::AssignmentId;
use millstream_core::problem::Problem;
use millstream_core::raw::RawJson;

use crate::assignments::Due;
use crate::item_store::ItemRef;

/// One thing that is to be done to one item.
#[derive(Debug, Clone)]
pub struct Ask {
    /// Which item.
    pub of: ItemRef,
    pub what: What,
    /// Of an answer that could not be judged within the batch.
    pub judged: Option<JudgedAnswer>,
}

/// What an answer was found to be, with what it was judged by: it counts as long as that is the same.
#[derive(Debug, Clone)]
pub struct JudgedAnswer {
    pub queue: Box<QueueConfig>,
    pub payload: RawJson,
    pub problems: Vec<Problem>,
}

#[derive(Debug, Clone)]
pub enum What {
    Input(Input),
    /// The action that waits is leased anew. If the item has ended, whoever asks tells it.
    Adopt(Waiter),
}

impl Ask {
    pub fn input(of: ItemRef, input: Input) -> Self {
        Self { of, what: What::Input(input), judged: None }
    }

    pub fn adopt(of: ItemRef, waiter: Waiter) -> Self {
        Self { of, what: What::Adopt(waiter), judged: None }
    }

    /// What is to be done about something whose time is over.
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
        /// The item as it is then.
        work: Box<Work>,
        /// Nothing was written: it was done before.
        repeated: bool,
        /// What the action that adopted it is to be told, by whoever asked. Others are told with the write.
        told: Option<Told>,
    },
    Refused {
        refusal: Refusal,
        work: Box<Work>,
    },
    /// The answer is not valid, and the assignment is as it was.
    Invalid(Vec<Problem>),
    /// To judge the answer takes long: the asker judges it by these and asks again.
    Unjudged {
        queue: Box<QueueConfig>,
        payload: RawJson,
    },
    NotAdopted(NotAdopted),
    NoSuchItem,
}
