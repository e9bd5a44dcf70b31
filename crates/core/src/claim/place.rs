//! Placement: assigns every free seat that is due to a device, in the same commit as the creation or the loss
//! that freed it.

use super::change::{Change, Stepped};
use super::choose::{Choice, How, Weights, choose};
use super::due::{Due, due};
use super::input::Input;
use super::roster::Roster;
use super::step::step;
use crate::time::Timestamp;

/// Selects devices for all seats that are due. Each choice sees the previous ones: the roster counts the
/// seats it assigns.
///
/// Placement alone never pre-empts; [`victim`](super::victim) selects the seat to pre-empt.
#[must_use]
pub fn place(
    change: Change,
    roster: &mut Roster,
    weights: &Weights,
    rotation: u64,
    by: Option<&str>,
    now: Timestamp,
) -> Change {
    let numbers: Vec<u16> = change.run.numbered().map(|(number, _)| number).collect();
    let mut change = change;
    for number in numbers {
        if !due(&change.run, number).is_some_and(|(at, what)| what == Due::Place && at <= now) {
            continue;
        }
        let turn = rotation.wrapping_add(u64::from(number));
        let input = match choose(&change.run, number, roster, weights, turn, now) {
            Choice::Chosen { device, how, decision } => {
                roster.shift(&device, 1);
                match how {
                    How::Creator => Input::SelfClaim {
                        device,
                        seat: Some(number),
                        fitness: Ok(()),
                        decision: Some(decision),
                    },
                    How::Coordinator | How::Score => {
                        Input::Assign { seat: number, device, decision: Some(decision) }
                    }
                }
            }
            Choice::Nobody { outlook, decision } => {
                Input::NobodyViable { seat: number, outlook, decision: Some(decision) }
            }
        };
        let next = step(change.run.clone(), &input, by, now);
        change = change.then(next.unwrap_or(Stepped::Already));
    }
    change
}
