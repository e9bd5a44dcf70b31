//! Work queues for people: items, and the assignment of items to persons.
//!
//! An *item* is a piece of work in a queue. It has as many slots as its overlap says. A free slot is an
//! *opening*; given to a person it becomes an *assignment*; a completed assignment fills the slot. An
//! assignment that ends otherwise (expired, skipped) frees its slot for reassignment to the same person or to
//! others, as the queue's configuration says.
//!
//! [`step`](step::step) decides everything that happens to an item, from the item, its assignments and the
//! configuration of its queue; [`table`] lists the legal transitions, and the diagrams of the documentation
//! are drawn from it. [`next`] selects the person for each opening. None of them reads a clock or draws an
//! id: both are arguments.
//!
//! Reading order: the vocabulary ([`status`], [`queue`], [`item`], [`given`]), the inputs ([`input`],
//! [`table`], [`mod@step`], [`passing_on`], [`ending`], [`adopting`]), the records ([`logbook`], [`told`],
//! [`notices`], [`stats`]), and the selection of the next assignment ([`next`]).

pub mod adopting;
pub mod agreement;
mod combining;
pub mod diagram;
pub mod ending;
pub mod given;
pub mod input;
pub mod item;
pub mod limits;
pub mod logbook;
pub mod next;
pub mod notices;
pub mod passing_on;
pub mod queue;
mod queue_read;
pub mod refusal;
pub mod rules;
pub mod standings;
pub mod stats;
pub mod status;
pub mod step;
pub mod table;
#[cfg(test)]
mod tests;
pub mod told;

pub use adopting::{Adopted, NotAdopted, adopt};
pub use given::Assignment;
pub use input::Input;
pub use item::{Item, NewItem, Waiter, Work};
pub use logbook::{LogEntry, What};
pub use queue::QueueConfig;
pub use refusal::Refusal;
pub use status::{AssignmentStatus, ItemStatus, QueueState};
pub use step::{Change, Setting, Stepped, step};
pub use told::Told;
