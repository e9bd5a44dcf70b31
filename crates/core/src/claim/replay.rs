//! Replays the log of a run and compares the holders of its seats with the stored run.

use std::collections::BTreeMap;

use super::change::Entry;
use super::row::Run;
use super::seat::{Ended, Token};
use super::status::Status;
use crate::id::DeviceId;

/// The history of a seat according to a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outline {
    pub status: Status,
    pub holder: Option<(DeviceId, Token)>,
    /// Former holders that did not finish the work.
    pub former: Vec<(DeviceId, Token, Ended)>,
}

/// Folds a log, in its order.
pub fn replay<'a>(log: impl IntoIterator<Item = &'a Entry>) -> BTreeMap<u16, Outline> {
    let mut seats: BTreeMap<u16, Outline> = BTreeMap::new();
    for entry in log {
        let Some(number) = entry.seat else { continue };
        let seat = seats.entry(number).or_insert_with(|| Outline {
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
pub fn summary(run: &Run) -> BTreeMap<u16, Outline> {
    run.numbered()
        .map(|(number, seat)| {
            let former = seat.previous.iter().map(|one| (one.device.clone(), one.token, one.reason));
            let holder = seat.held().map(|held| (held.device.clone(), held.token));
            (number, Outline { status: seat.status(), holder, former: former.collect() })
        })
        .collect()
}
