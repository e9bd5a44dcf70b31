//! Device runs: work with exclusive ownership, held by one device at a time, from the offer to its end.
//!
//! A run has one seat, or several for devices that work in parallel. [`step()`] is pure: a [`Run`], an
//! [`Input`] and the time give a [`Change`] (the run after it, its log entries, and the outcome for the
//! waiting execution) or a [`Refusal`] with the status and the holder of the seat. The legal transitions are
//! in one [table](table::MOVES), which the tests and the diagram read.
//!
//! **The fence.** Every assignment of a seat takes the next [`Token`] of its run. Every act of a device
//! carries its fencing token; a device that has lost its seat holds a stale token, which is refused. Device
//! clocks never decide the order.
//!
//! **Never stuck silently.** A run that has not ended has a due time at which the monitor acts on it
//! ([`due()`]), or it is paused, or it waits for an operator because it is assigned manually.
//!
//! Refuses: to load rosters (they are arguments of [`choose()`]), and to guarantee free capacity. Capacity is
//! checked at the choice; two runs placed at the same instant may both take the last free seat of a device,
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
