//! Applies commands to items of people's work, with optimistic concurrency: load, let the pure core decide,
//! commit if the version still matches, else retry. Batched: the commands of different callers share one load
//! and one transaction.
//!
//! Refuses: domain decisions. [`Around`] is the environment: the stores, the time, validation of answers, and
//! the settlement of the action that waits for an item.

mod around;
mod asking;
mod deciding;
mod rounds;
mod settings;
mod settling;
#[cfg(test)]
mod tests;

pub use around::{Answered, Around, Told, Written};
pub use asking::{Ask, JudgedAnswer, Tended, What};
pub use rounds::tend;
pub use settling::settlement;
