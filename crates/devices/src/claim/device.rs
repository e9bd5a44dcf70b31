//! A device as a candidate for selection: its last self-report.

use std::collections::BTreeSet;

use millstream_model::id::{DeviceId, Name};
use millstream_model::time::Timestamp;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeviceReport {
    pub id: DeviceId,
    pub capabilities: BTreeSet<Name>,
    /// Overall capability (memory, for example): sorts the [`election`](crate::election).
    pub capability: u32,
    /// Maximum number of concurrent seats; `None` is unlimited.
    pub capacity: Option<u32>,
    /// Self-reported load, 0 to 1.
    pub load: f64,
    /// Self-reported connection quality, 0 to 1.
    pub quality: f64,
    /// Percent; `None` for a device without a battery.
    pub battery: Option<u8>,
    /// Whether it runs on battery power now.
    pub on_battery: bool,
    /// Whether it may be elected coordinator.
    pub coordinates: bool,
    /// An operator excluded it from selection.
    pub paused: bool,
    pub seen_at: Timestamp,
}

/// A device with the number of its open seats from the store.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceCandidate {
    pub device: DeviceReport,
    /// Seats that are assigned to it or claimed by it, over all runs.
    pub open: u32,
}

impl DeviceReport {
    /// A device that reports nothing but its name.
    pub fn with_defaults(id: DeviceId, seen_at: Timestamp) -> Self {
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

    /// The larger of the self-reported load and the share of its capacity in use.
    pub fn load_with(&self, open: u32) -> f64 {
        let given = match self.capacity {
            Some(0) => 1.0,
            Some(capacity) => f64::from(open) / f64::from(capacity),
            None => 0.0,
        };
        clamp_unit(self.load).max(given).min(1.0)
    }

    /// Whether it has capacity for another seat.
    pub fn has_room_with(&self, open: u32) -> bool {
        self.capacity.is_none_or(|capacity| open < capacity)
    }
}

impl DeviceCandidate {
    pub fn total_load(&self) -> f64 {
        self.device.load_with(self.open)
    }

    pub fn has_room(&self) -> bool {
        self.device.has_room_with(self.open)
    }
}

/// Clamps a self-reported value to 0 to 1. NaN counts as 0.
pub(super) fn clamp_unit(said: f64) -> f64 {
    if said.is_nan() { 0.0 } else { said.clamp(0.0, 1.0) }
}
