//! Work queues for people: items, and the assignment of items to persons.
//!
//! An *item* is a piece of work in a queue. It has as many slots as its overlap says. A free slot is an
//! *opening*; given to a person it becomes an *assignment*; a completed assignment fills the slot. An
//! assignment that ends otherwise (expired, skipped) frees its slot for reassignment to the same person or to
//! others, as the queue's configuration says.
//!
//! [`step_item()`] decides everything that happens to an item, from the item, its assignments and the
//! configuration of its queue; [`table`] lists the legal transitions, and the diagrams of the documentation
//! are drawn from it. [`select`] selects the person for each opening. None of them reads a clock or draws an
//! id: both are arguments.
//!
//! Reading order: the vocabulary ([`status`], [`queue`], [`item`], [`item_assignment`]), the inputs ([`input`],
//! [`table`], [`step`], [`reassign`], [`ending`], [`mod@adopt_item`]), the records ([`item_log`], [`item_outcome`],
//! [`notices`], [`stats`]), and the selection of the next assignment ([`select`]).

pub mod adopt_item;
pub mod agreement;
pub mod diagram;
pub mod ending;
pub mod input;
pub mod item;
pub mod item_assignment;
pub mod item_log;
pub mod item_outcome;
pub mod limits;
mod merge_changes;
pub mod notices;
pub mod queue;
mod queue_read;
pub mod queue_totals;
mod queue_write;
pub mod reassign;
pub mod refusal;
pub mod rules;
pub mod select;
pub mod stats;
pub mod status;
pub mod step;
pub mod table;
#[cfg(test)]
mod tests;

pub use adopt_item::{AdoptionRefusal, ItemAdoption, adopt_item};
pub use input::ItemInput;
pub use item::{ItemAggregate, ItemWaiter, NewQueueItem, QueueItem};
pub use item_assignment::ItemAssignment;
pub use item_log::{ItemLogEntry, ItemLogKind};
pub use item_outcome::ItemOutcome;
pub use queue::QueueConfig;
pub use refusal::ItemRefusal;
pub use status::{AssignmentStatus, ItemStatus, QueueState};
pub use step::{ItemChange, ItemQueueContext, ItemStepOutcome, step_item};
