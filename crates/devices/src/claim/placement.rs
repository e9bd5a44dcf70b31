//! Placement: assigns every free seat that is due to a device, in the same commit as the creation or the loss
//! that freed it.

use millstream_model::time::Timestamp;

use super::change::{RunChange, RunStepOutcome};
use super::due::{SeatDue, next_due};
use super::input::RunInput;
use super::roster::DeviceRoster;
use super::select_device::{DeviceChoice, DeviceChoiceReason, SelectionWeights, choose_device};
use super::step::step_run;

/// Selects devices for all seats that are due. Each choice sees the previous ones: the roster counts the
/// seats it assigns.
///
/// Placement alone never pre-empts; [`victim`](super::preemption_victim) selects the seat to pre-empt.
#[must_use]
pub fn place_run(
    change: RunChange,
    roster: &mut DeviceRoster,
    weights: &SelectionWeights,
    rotation: u64,
    by: Option<&str>,
    now: Timestamp,
) -> RunChange {
    let numbers: Vec<u16> = change.run.numbered_seats().map(|(number, _)| number).collect();
    let mut change = change;
    for number in numbers {
        if !next_due(&change.run, number).is_some_and(|(at, what)| what == SeatDue::Place && at <= now) {
            continue;
        }
        let turn = rotation.wrapping_add(u64::from(number));
        let input = match choose_device(&change.run, number, roster, weights, turn, now) {
            DeviceChoice::Chosen { device, how, decision } => {
                roster.shift_open_seats(&device, 1);
                match how {
                    DeviceChoiceReason::Creator => RunInput::SelfClaim {
                        device,
                        seat: Some(number),
                        fitness: Ok(()),
                        decision: Some(decision),
                    },
                    DeviceChoiceReason::Coordinator | DeviceChoiceReason::Score => {
                        RunInput::Assign { seat: number, device, decision: Some(decision) }
                    }
                }
            }
            DeviceChoice::Nobody { outlook, decision } => {
                RunInput::NobodyViable { seat: number, outlook, decision: Some(decision) }
            }
        };
        let next = step_run(change.run.clone(), &input, by, now);
        change = change.merge_next(next.unwrap_or(RunStepOutcome::Already));
    }
    change
}
