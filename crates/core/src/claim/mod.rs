//! Runs: work that one device at a time has for itself, from being offered to its end.
//!
//! A run has one seat, or several for devices that work in parallel. [`step()`] is pure: a [`Run`], an
//! [`Input`] and the time give a [`Change`] (the run after it, what is written into its log, and what the
//! waiting execution is told) or a [`Refusal`] that says where the seat stands and who has it. What may
//! happen where is in one [table](table::MOVES), which the tests and the drawn diagram read.
//!
//! **The fence.** Every assignment of a seat takes the next [`Token`] of its run. Whatever a device does names
//! its token; one that has lost its seat has a token that nothing accepts any more. Order never comes from
//! the clocks of devices.
//!
//! **Never stuck silently.** A run that has not ended has a time at which somebody looks at it ([`due()`]), or it
//! is paused, or it waits for a person because it is assigned by hand.
//!
//! Refuses: to know rosters by itself (they are handed to [`choose()`]), and to promise that a device has room. Its
//! capacity is looked at when it is chosen; two runs chosen at the same instant may both go to the last place,
//! and the device may decline.

mod acts;
mod assigning;
mod change;
mod choose;
mod create;
mod device;
mod diagram;
mod due;
mod fit;
mod input;
mod notices;
mod offline;
mod operating;
mod place;
mod policy;
mod preempt;
mod refusal;
mod replay;
mod roster;
mod row;
mod seat;
mod settings;
mod silence;
mod status;
mod step;
pub mod table;
mod told;
mod word;

#[cfg(test)]
mod tests;

pub use change::{Change, Entry, Stepped};
pub use choose::{Card, Choice, Decision, How, MAX_CARDS, Outlook, Parts, Weights, choose};
pub use create::{Creator, RunSpec, create};
pub use device::{Candidate, Device};
pub use diagram::{diagram, listing};
pub use due::{Due, due, due_of, overdue};
pub use fit::{Unfit, fit, fit_to_take};
pub use input::{Act, Doing, Input};
pub use notices::notices;
pub use place::place;
pub use policy::Policy;
pub use preempt::{Occupied, victim};
pub use refusal::{Holder, Refusal, Why};
pub use replay::{Outline, replay, summary};
pub use roster::Roster;
pub use row::{Assign, FORMAT, Run, WaitingAction};
pub use seat::{
    Ended, Failure, FailureKind, Holding, MAX_PREVIOUS, Previous, Progress, Seat, SeatState, Token,
};
pub use settings::{Backoff, Overrides, Settings};
pub use status::Status;
pub use step::step;
pub use told::Told;
pub use word::Word;
