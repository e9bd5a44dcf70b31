//! Whether a device can take a seat, and why not.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use super::device::{Candidate, Device};
use super::roster::Listed;
use super::row::Run;
use crate::id::Name;
use crate::time::Timestamp;

/// Why a device is not a candidate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum Unfit {
    Incapable {
        missing: BTreeSet<Name>,
    },
    Unreachable {
        seen_at: Timestamp,
    },
    /// The device is paused.
    Paused,
    Battery {
        percent: u8,
    },
    OnAnotherSeat,
    /// It had its chance since the last rest: it declined, was silent, failed or gave it back.
    PassedOver,
    NoRoom {
        open: u32,
    },
}

/// Whether it can take this seat. What is named first stands in the way for longest: one that has no room has
/// everything else.
pub fn fit(run: &Run, seat: u16, candidate: &Candidate, now: Timestamp) -> Result<(), Unfit> {
    with_room(run, seat, &candidate.device, candidate.open, now)
}

pub(super) fn fitness(run: &Run, seat: u16, listed: &Listed, now: Timestamp) -> Result<(), Unfit> {
    with_room(run, seat, &listed.device, listed.open, now)
}

fn with_room(run: &Run, seat: u16, device: &Device, open: u32, now: Timestamp) -> Result<(), Unfit> {
    if !run.requires.is_subset(&device.capabilities) {
        let missing = run.requires.difference(&device.capabilities).cloned().collect();
        return Err(Unfit::Incapable { missing });
    }
    if now.since(device.seen_at) > run.settings.reachable {
        return Err(Unfit::Unreachable { seen_at: device.seen_at });
    }
    if device.paused {
        return Err(Unfit::Paused);
    }
    if let (true, Some(percent), Some(least)) = (device.on_battery, device.battery, run.min_battery)
        && percent < least
    {
        return Err(Unfit::Battery { percent });
    }
    if run.seat_of(&device.id).is_some_and(|other| other != seat) {
        return Err(Unfit::OnAnotherSeat);
    }
    if run.seat(seat).is_some_and(|seat| seat.passed_over.contains(&device.id)) {
        return Err(Unfit::PassedOver);
    }
    if !device.has_room_with(open) {
        return Err(Unfit::NoRoom { open });
    }
    Ok(())
}

/// Whether it may take this seat by itself, without being asked: one that had its chance may come back.
pub fn fit_to_take(run: &Run, seat: u16, candidate: &Candidate, now: Timestamp) -> Result<(), Unfit> {
    match fit(run, seat, candidate, now) {
        Err(Unfit::PassedOver) if !candidate.has_room() => Err(Unfit::NoRoom { open: candidate.open }),
        Err(Unfit::PassedOver) | Ok(()) => Ok(()),
        Err(unfit) => Err(unfit),
    }
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Incapable { missing } => {
                let missing: Vec<&str> = missing.iter().map(Name::as_str).collect();
                write!(f, "it cannot do {}", missing.join(", "))
            }
            Self::Unreachable { seen_at } => write!(f, "it was not heard of since {seen_at}"),
            Self::Paused => f.write_str("it is paused"),
            Self::Battery { percent } => write!(f, "it runs on a battery of {percent} %"),
            Self::OnAnotherSeat => f.write_str("it has another seat of this run"),
            Self::PassedOver => f.write_str("it had its chance"),
            Self::NoRoom { open } => write!(f, "it has {open} already"),
        }
    }
}
