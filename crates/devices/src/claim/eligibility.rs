//! Eligibility of a device for a seat, with the reason of an exclusion.

use std::collections::BTreeSet;
use std::fmt;

use millstream_model::id::Name;
use millstream_model::time::Timestamp;
use serde::Serialize;

use super::device::{DeviceCandidate, DeviceReport};
use super::run::RunRecord;

/// Why a device is not eligible.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum DeviceIneligibility {
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

/// The reason of an exclusion without its particulars: an [`DeviceIneligibility`] that is cheap to compute for many
/// devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DeviceIneligibilityKind {
    Incapable,
    Unreachable,
    Paused,
    Battery,
    OnAnotherSeat,
    PassedOver,
    NoRoom,
}

/// Whether the device is eligible for this seat.
pub fn check_eligible(
    run: &RunRecord,
    seat: u16,
    candidate: &DeviceCandidate,
    now: Timestamp,
) -> Result<(), DeviceIneligibility> {
    let (device, open) = (&candidate.device, candidate.open);
    match ineligibility_of(run, seat, device, open, now) {
        Some(bar) => Err(DeviceIneligibility::with_details(bar, run, device, open)),
        None => Ok(()),
    }
}

/// Tests lasting obstacles first: a device reported without capacity meets every other requirement.
pub(super) fn ineligibility_of(
    run: &RunRecord,
    seat: u16,
    device: &DeviceReport,
    open: u32,
    now: Timestamp,
) -> Option<DeviceIneligibilityKind> {
    if !run.requires.is_subset(&device.capabilities) {
        return Some(DeviceIneligibilityKind::Incapable);
    }
    if now.since(device.seen_at) > run.settings.reachable {
        return Some(DeviceIneligibilityKind::Unreachable);
    }
    if device.paused {
        return Some(DeviceIneligibilityKind::Paused);
    }
    if let (true, Some(percent), Some(least)) = (device.on_battery, device.battery, run.min_battery)
        && percent < least
    {
        return Some(DeviceIneligibilityKind::Battery);
    }
    if run.seat_of_device(&device.id).is_some_and(|other| other != seat) {
        return Some(DeviceIneligibilityKind::OnAnotherSeat);
    }
    if run.seat(seat).is_some_and(|seat| seat.passed_over.contains(&device.id)) {
        return Some(DeviceIneligibilityKind::PassedOver);
    }
    (!device.has_room_with(open)).then_some(DeviceIneligibilityKind::NoRoom)
}

impl DeviceIneligibility {
    pub(super) fn with_details(
        bar: DeviceIneligibilityKind,
        run: &RunRecord,
        device: &DeviceReport,
        open: u32,
    ) -> Self {
        match bar {
            DeviceIneligibilityKind::Incapable => {
                Self::Incapable { missing: run.requires.difference(&device.capabilities).cloned().collect() }
            }
            DeviceIneligibilityKind::Unreachable => Self::Unreachable { seen_at: device.seen_at },
            DeviceIneligibilityKind::Paused => Self::Paused,
            DeviceIneligibilityKind::Battery => Self::Battery { percent: device.battery.unwrap_or_default() },
            DeviceIneligibilityKind::OnAnotherSeat => Self::OnAnotherSeat,
            DeviceIneligibilityKind::PassedOver => Self::PassedOver,
            DeviceIneligibilityKind::NoRoom => Self::NoRoom { open },
        }
    }
}

/// Whether the device may claim this seat on its own initiative: a device that was passed over may come back.
pub fn check_self_claim(
    run: &RunRecord,
    seat: u16,
    candidate: &DeviceCandidate,
    now: Timestamp,
) -> Result<(), DeviceIneligibility> {
    match check_eligible(run, seat, candidate, now) {
        Err(DeviceIneligibility::PassedOver) if !candidate.has_room() => {
            Err(DeviceIneligibility::NoRoom { open: candidate.open })
        }
        Err(DeviceIneligibility::PassedOver) | Ok(()) => Ok(()),
        Err(unfit) => Err(unfit),
    }
}

impl fmt::Display for DeviceIneligibility {
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
