//! Seats that nobody has go to somebody in the write that made them free; work of lower priority gives way where
//! a run asks for that.

use std::collections::BTreeMap;

use millstream_core::claim::{
    Candidate, Change, Choice, Due, Input, Occupied, Outlook, Run, Stepped, Unfit, choose, overdue, place,
    step, victim,
};
use millstream_core::id::{DeviceKey, RunKey};
use millstream_core::time::Timestamp;

use super::around::{Around, roster};
use crate::Result;

/// Seats of a device that are looked at to find one that gives way.
const SEATS: usize = 100;

/// The change, its seats placed; and what that does to other runs.
pub(super) async fn placed(
    around: &dyn Around,
    key: &RunKey,
    change: Change,
    by: Option<&str>,
    now: Timestamp,
) -> Result<(Change, BTreeMap<RunKey, (i64, Change)>)> {
    let mut others = BTreeMap::new();
    if !is_to_be_placed(&change.run, now) {
        return Ok((change, others));
    }
    let roster = roster(around.stores(), &key.tenant).await?;
    let mut change = change;
    if change.run.preempt {
        change = make_way(around, key, change, &roster, &mut others, now).await?;
    }
    let change = place(change, &roster, &around.weights(), around.rotation(), by, now);
    for (_, other) in others.values_mut() {
        *other = place(other.clone(), &roster, &around.weights(), around.rotation(), None, now);
    }
    Ok((change, others))
}

fn is_to_be_placed(run: &Run, now: Timestamp) -> bool {
    overdue(run, now).iter().any(|(_, what)| *what == Due::Place)
}

/// For each seat that all who could take are too busy for.
async fn make_way(
    around: &dyn Around,
    key: &RunKey,
    mut change: Change,
    roster: &[Candidate],
    others: &mut BTreeMap<RunKey, (i64, Change)>,
    now: Timestamp,
) -> Result<Change> {
    let stores = around.stores();
    let to_place = overdue(&change.run, now).into_iter().filter(|(_, what)| *what == Due::Place);
    for (seat, _) in to_place {
        let choice = choose(&change.run, seat, roster, &around.weights(), 0, now);
        let Choice::Nobody { outlook: Outlook::Busy, decision } = choice else { continue };
        let full = decision.cards.iter().filter(|card| matches!(card.unfit, Some(Unfit::NoRoom { .. })));
        let full: Vec<DeviceKey> =
            full.map(|card| DeviceKey { tenant: key.tenant.clone(), device: card.device.clone() }).collect();
        let seats = stores.run_views.seats_of(&full, SEATS).await?.into_iter().flatten();
        // A run gives way once: what it does then is for the next look.
        let free: Vec<Occupied> =
            seats.filter(|seat| seat.run != *key && !others.contains_key(&seat.run)).collect();
        let Some(seat_of_other) = victim(&change.run, &free) else { continue };
        let found = stores.runs.load_runs(std::slice::from_ref(&seat_of_other.run)).await?;
        let Some(other) = found.into_iter().flatten().next() else { continue };
        let taken =
            Input::Preempt { seat: seat_of_other.seat, by: key.run.clone(), priority: change.run.priority };
        let Ok(Stepped::Changed(gives_way)) = step(other.run, &taken, None, now) else { continue };
        let given = Input::Assign { seat, device: seat_of_other.device.clone(), decision: Some(decision) };
        if let Ok(next @ Stepped::Changed(_)) = step(change.run.clone(), &given, None, now) {
            others.insert(other.key, (other.version, *gives_way));
            change = change.then(next);
        }
    }
    Ok(change)
}
