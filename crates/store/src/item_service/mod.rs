//! Applies commands to items of people's work, with optimistic concurrency: load, let the pure `people` decide,
//! commit if the version still matches, else retry. Batched: the commands of different callers share one load
//! and one transaction.
//!
//! Refuses: domain decisions. [`ItemEnvironment`] is the environment: the stores, the time, validation of answers, and
//! the settlement of the action that waits for an item.

mod command;
mod decided_item;
mod environment;
mod item_queues;
mod retry_loop;
mod waiter_settlement;

pub use command::{ItemCommand, ItemCommandKind, ItemReply, ValidatedAnswer};
pub use environment::{ItemEnvironment, ItemOutcome, SubmittedAnswer, WrittenItems};
pub use retry_loop::apply_commands;
pub use waiter_settlement::settle_waiter;
