//! Eligibility of a device for a seat, with the reason of an exclusion.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use super::device::{Candidate, Device};
use super::row::Run;
use crate::id::Name;
use crate::time::Timestamp;

/// Why a device is not eligible.
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
    /// It was already asked since the last rest and declined, did not answer, failed or released the seat.
    PassedOver,
    NoRoom {
        open: u32,
    },
}

/// The reason of an exclusion without its particulars: an [`Unfit`] that is cheap to compute for many
/// devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bar {
    Incapable,
    Unreachable,
    Paused,
    Battery,
    OnAnotherSeat,
    PassedOver,
    NoRoom,
}

/// Whether the device is eligible for this seat.
pub fn fit(run: &Run, seat: u16, candidate: &Candidate, now: Timestamp) -> Result<(), Unfit> {
    let (device, open) = (&candidate.device, candidate.open);
    match bar(run, seat, device, open, now) {
        Some(bar) => Err(Unfit::of(bar, run, device, open)),
        None => Ok(()),
    }
}

/// Tests lasting obstacles first: a device reported without capacity meets every other requirement.
pub(super) fn bar(run: &Run, seat: u16, device: &Device, open: u32, now: Timestamp) -> Option<Bar> {
    if !run.requires.is_subset(&device.capabilities) {
        return Some(Bar::Incapable);
    }
    if now.since(device.seen_at) > run.settings.reachable {
        return Some(Bar::Unreachable);
    }
    if device.paused {
        return Some(Bar::Paused);
    }
    if let (true, Some(percent), Some(least)) = (device.on_battery, device.battery, run.min_battery)
        && percent < least
    {
        return Some(Bar::Battery);
    }
    if run.seat_of(&device.id).is_some_and(|other| other != seat) {
        return Some(Bar::OnAnotherSeat);
    }
    if run.seat(seat).is_some_and(|seat| seat.passed_over.contains(&device.id)) {
        return Some(Bar::PassedOver);
    }
    (!device.has_room_with(open)).then_some(Bar::NoRoom)
}

impl Unfit {
    pub(super) fn of(bar: Bar, run: &Run, device: &Device, open: u32) -> Self {
        match bar {
            Bar::Incapable => {
                Self::Incapable { missing: run.requires.difference(&device.capabilities).cloned().collect() }
            }
            Bar::Unreachable => Self::Unreachable { seen_at: device.seen_at },
            Bar::Paused => Self::Paused,
            Bar::Battery => Self::Battery { percent: device.battery.unwrap_or_default() },
            Bar::OnAnotherSeat => Self::OnAnotherSeat,
            Bar::PassedOver => Self::PassedOver,
            Bar::NoRoom => Self::NoRoom { open },
        }
    }
}

/// Whether the device may claim this seat on its own initiative: a device that was passed over may come back.
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
                write!(f, "it lacks {}", missing.join(", "))
            }
            Self::Unreachable { seen_at } => write!(f, "its last heartbeat was at {seen_at}"),
            Self::Paused => f.write_str("it is paused"),
            Self::Battery { percent } => write!(f, "it runs on a battery of {percent} %"),
            Self::OnAnotherSeat => f.write_str("it has another seat of this run"),
            Self::PassedOver => f.write_str("it was already asked"),
            Self::NoRoom { open } => write!(f, "it has no free capacity ({open} open)"),
        }
    }
}
