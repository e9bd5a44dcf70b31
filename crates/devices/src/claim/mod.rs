//! Device runs: work with exclusive ownership, held by one device at a time, from the offer to its end.
//!
//! A run has one seat, or several for devices that work in parallel. [`step_run()`] is pure: a [`RunRecord`], an
//! [`RunInput`] and the time give a [`RunChange`] (the run after it, its log entries, and the outcome for the
//! waiting execution) or a [`RunRefusal`] with the status and the holder of the seat. The legal transitions are
//! in one [table](table::MOVES), which the tests and the diagram read.
//!
//! **The fence.** Every assignment of a seat takes the next [`SeatToken`] of its run. Every act of a device
//! carries its fencing token; a device that has lost its seat holds a stale token, which is refused. Device
//! clocks never decide the order.
//!
//! **Never stuck silently.** A run that has not ended has a due time at which the monitor acts on it
//! ([`next_due()`]), or it is paused, or it waits for an operator because it is assigned manually.
//!
//! Refuses: to load rosters (they are arguments of [`choose_device()`]), and to guarantee free capacity. Capacity is
//! checked at the choice; two runs placed at the same instant may both take the last free seat of a device,
//! and the device may decline.

mod assign_seat;
mod change;
mod create;
mod device;
mod device_acts;
mod diagram;
mod due;
mod eligibility;
mod input;
mod input_kind;
mod notices;
mod offline;
mod operator;
mod placement;
mod policy;
mod preemption;
mod refusal;
mod replay;
mod roster;
mod run;
mod run_outcome;
mod seat;
mod select_device;
mod settings;
mod status;
mod step;
pub mod table;
mod timeouts;

#[cfg(test)]
mod tests;

pub use change::{RunChange, RunLogEntry, RunStepOutcome};
pub use create::{CreatingDevice, RunSpec, create_run};
pub use device::{DeviceCandidate, DeviceReport};
pub use diagram::{draw_run_diagram, list_transitions};
pub use due::{SeatDue, due_time_of, next_due, overdue_seats};
pub use eligibility::{DeviceIneligibility, check_eligible, check_self_claim};
pub use input::{DeviceAction, RunInput, SeatAct};
pub use input_kind::RunInputKind;
pub use notices::run_notices;
pub use placement::place_run;
pub use policy::DevicePolicy;
pub use preemption::{OccupiedSeat, preemption_victim};
pub use refusal::{CurrentSeatHolder, RunRefusal, RunRefusalReason};
pub use replay::{SeatOutline, outline_seats, replay_seats};
pub use roster::DeviceRoster;
pub use run::{FORMAT, RunAssignMode, RunRecord, WaitingAction};
pub use run_outcome::RunOutcome;
pub use seat::{
    FormerHolding, MAX_PREVIOUS, RunSeat, SeatFailure, SeatFailureKind, SeatHolding, SeatLossReason,
    SeatProgress, SeatState, SeatToken,
};
pub use select_device::{
    DeviceCard, DeviceChoice, DeviceChoiceReason, DeviceDecision, MAX_CARDS, ScoreParts, SeatOutlook,
    SelectionWeights, choose_device,
};
pub use settings::{RunSettings, RunSettingsOverrides, SeatBackoff};
pub use status::SeatStatus;
pub use step::step_run;
