//! Work for people: queues of items, and who was given which when.
//!
//! An *item* is a piece of work in a queue. It has as many places as its overlap says; a place is an *opening*
//! until somebody is given it, then an *assignment*, and it is filled when that is completed. What ends otherwise
//! (expired, skipped) gives its place on, to the same person or to others, as the queue's configuration says.
//!
//! [`step`](step::step) decides everything that happens to an item, from the item, its assignments and the
//! configuration of its queue; [`table`] says what is possible when, and the diagrams of the documentation are
//! drawn from it. Who gets what next is [`next`]'s. Neither knows a clock or draws an id: both are handed in.
//!
//! Reading order: the words ([`status`], [`queue`], [`item`], [`given`]), what happens ([`input`], [`table`],
//! [`mod@step`], [`passing_on`], [`ending`], [`adopting`]), what is written down ([`logbook`], [`told`], [`notices`],
//! [`stats`]), and who is next ([`next`]).

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
