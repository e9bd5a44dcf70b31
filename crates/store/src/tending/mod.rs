//! What is done to items of people's work, by whoever does it: load, let the pure core decide, write if nobody
//! wrote before, else look again. Many at once: what different callers ask for is one load and one transaction.
//!
//! Nothing is decided here. [`Around`] is what the shell knows: the stores, the time, whether an answer is valid,
//! and how the outcome of an item settles the action that waits for it.

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
