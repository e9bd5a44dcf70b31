//! Replays the log of a run and compares the holders of its seats with the stored run.

use std::collections::BTreeMap;

use millstream_model::id::DeviceId;

use super::change::RunLogEntry;
use super::run::RunRecord;
use super::seat::{SeatLossReason, SeatToken};
use super::status::SeatStatus;

/// The history of a seat according to a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeatOutline {
    pub status: SeatStatus,
    pub holder: Option<(DeviceId, SeatToken)>,
    /// Former holders that did not finish the work.
    pub former: Vec<(DeviceId, SeatToken, SeatLossReason)>,
}

/// Folds a log, in its order.
pub fn replay_seats<'a>(log: impl IntoIterator<Item = &'a RunLogEntry>) -> BTreeMap<u16, SeatOutline> {
    let mut seats: BTreeMap<u16, SeatOutline> = BTreeMap::new();
    for entry in log {
        let Some(number) = entry.seat else { continue };
        let seat = seats.entry(number).or_insert_with(|| SeatOutline {
            status: entry.to,
            holder: None,
            former: Vec::new(),
        });
        seat.status = entry.to;
        if let (Some(device), Some(token), Some(ended)) = (&entry.device, entry.token, entry.ended) {
            seat.former.push((device.clone(), token, ended));
        }
        seat.holder = match (&entry.device, entry.token) {
            (Some(device), Some(token)) if entry.to.is_held() => Some((device.clone(), token)),
            _ if entry.to.is_held() => seat.holder.take(),
            _ => None,
        };
    }
    seats
}

/// The same outline, from the stored run.
pub fn outline_seats(run: &RunRecord) -> BTreeMap<u16, SeatOutline> {
    run.numbered_seats()
        .map(|(number, seat)| {
            let former = seat.previous.iter().map(|one| (one.device.clone(), one.token, one.reason));
            let holder = seat.current_holding().map(|held| (held.device.clone(), held.token));
            (number, SeatOutline { status: seat.status(), holder, former: former.collect() })
        })
        .collect()
}
