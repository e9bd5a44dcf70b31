//! A device as the choice sees it: what it said of itself last.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::id::{DeviceId, Name};
use crate::time::Timestamp;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Device {
    pub id: DeviceId,
    pub capabilities: BTreeSet<Name>,
    /// How capable it is altogether (memory, say): the order of [`election`](crate::election).
    pub capability: u32,
    /// How many seats it takes at once; `None` is any number.
    pub capacity: Option<u32>,
    /// How busy it is by its own account, 0 to 1.
    pub load: f64,
    /// How good its connection is, 0 to 1.
    pub quality: f64,
    /// Percent; `None` where there is no battery.
    pub battery: Option<u8>,
    /// Whether it runs on it now.
    pub on_battery: bool,
    /// Whether it may be elected coordinator.
    pub coordinates: bool,
    /// A person has taken it out of the choice.
    pub paused: bool,
    pub seen_at: Timestamp,
}

/// A device with what the store counts.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    pub device: Device,
    /// Seats that it has or is asked about, of all runs.
    pub open: u32,
}

impl Device {
    /// That says nothing of itself but its name.
    pub fn plain(id: DeviceId, seen_at: Timestamp) -> Self {
        Self {
            id,
            capabilities: BTreeSet::new(),
            capability: 1,
            capacity: None,
            load: 0.0,
            quality: 1.0,
            battery: None,
            on_battery: false,
            coordinates: false,
            paused: false,
            seen_at,
        }
    }

    /// The larger of what it says and what it has been given.
    pub fn load_with(&self, open: u32) -> f64 {
        let given = match self.capacity {
            Some(0) => 1.0,
            Some(capacity) => f64::from(open) / f64::from(capacity),
            None => 0.0,
        };
        unit(self.load).max(given).min(1.0)
    }

    /// Whether it takes another one.
    pub fn has_room_with(&self, open: u32) -> bool {
        self.capacity.is_none_or(|capacity| open < capacity)
    }
}

impl Candidate {
    pub fn load(&self) -> f64 {
        self.device.load_with(self.open)
    }

    pub fn has_room(&self) -> bool {
        self.device.has_room_with(self.open)
    }
}

/// What a device says of itself, held within 0 to 1. What is no number counts as 0.
pub(super) fn unit(said: f64) -> f64 {
    if said.is_nan() { 0.0 } else { said.clamp(0.0, 1.0) }
}
