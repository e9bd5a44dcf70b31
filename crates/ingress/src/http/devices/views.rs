//! JSON view of a device, and the description that a device sends of itself.

use std::collections::BTreeSet;

use millstream_devices::claim::{DeviceCandidate, DeviceReport, RunSpec};
use millstream_model::id::{DeviceId, Name};
use millstream_model::problem::ValidationProblem as Fault;
use millstream_model::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::http::strict_json::{whole, whole_or_none};

/// Registration of a device.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(crate) struct NewDeviceRequest {
    #[serde(default)]
    pub(crate) capabilities: BTreeSet<Name>,
    #[serde(default, deserialize_with = "whole")]
    pub(crate) capability: u32,
    #[serde(default, deserialize_with = "whole_or_none")]
    pub(crate) capacity: Option<u32>,
    #[serde(default)]
    pub(crate) load: f64,
    #[serde(default = "best")]
    pub(crate) quality: f64,
    #[serde(default, deserialize_with = "whole_or_none")]
    pub(crate) battery: Option<u8>,
    #[serde(default)]
    pub(crate) on_battery: bool,
    #[serde(default)]
    pub(crate) coordinator: bool,
}

const fn best() -> f64 {
    1.0
}

/// The largest number that every store can keep.
const MOST: u32 = 1_000_000_000;

impl NewDeviceRequest {
    pub(crate) fn into_device(self, id: DeviceId, seen_at: Timestamp) -> Result<DeviceReport, Vec<Fault>> {
        let mut faults = Vec::new();
        let mut wrong = |path: &str, message: String| faults.push(Fault::new(path, message));
        if self.capabilities.len() > RunSpec::MAX_CAPABILITIES {
            let most = RunSpec::MAX_CAPABILITIES;
            wrong(
                "capabilities",
                format!("has {} names, at most {most} are allowed", self.capabilities.len()),
            );
        }
        if self.capability > MOST {
            wrong("capability", format!("must be between 0 and {MOST}"));
        }
        if self.capacity.is_some_and(|capacity| capacity == 0 || capacity > MOST) {
            wrong("capacity", format!("must be between 1 and {MOST}, or left out"));
        }
        faults.extend(fraction_faults(self.load, self.quality, self.battery));
        if !faults.is_empty() {
            return Err(faults);
        }
        Ok(DeviceReport {
            id,
            capabilities: self.capabilities,
            capability: self.capability,
            capacity: self.capacity,
            load: self.load,
            quality: self.quality,
            battery: self.battery,
            on_battery: self.on_battery,
            coordinates: self.coordinator,
            paused: false,
            seen_at,
        })
    }
}

/// Validates the numbers that are fractions or percentages.
pub(super) fn fraction_faults(load: f64, quality: f64, battery: Option<u8>) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (path, value) in [("load", load), ("quality", quality)] {
        if !(0.0..=1.0).contains(&value) {
            faults.push(Fault::new(path, "must be between 0 and 1"));
        }
    }
    if battery.is_some_and(|percent| percent > 100) {
        faults.push(Fault::new("battery", "is a percentage: 0 to 100"));
    }
    faults
}

#[derive(Debug, Serialize)]
pub(super) struct DeviceOut {
    device_id: DeviceId,
    capabilities: BTreeSet<Name>,
    capability: u32,
    capacity: Option<u32>,
    load: f64,
    quality: f64,
    battery: Option<u8>,
    on_battery: bool,
    coordinator: bool,
    paused: bool,
    /// Seats that the device holds or is offered.
    open: u32,
    seen_at: Timestamp,
}

impl From<DeviceCandidate> for DeviceOut {
    fn from(DeviceCandidate { device, open }: DeviceCandidate) -> Self {
        Self {
            device_id: device.id,
            capabilities: device.capabilities,
            capability: device.capability,
            capacity: device.capacity,
            load: device.load,
            quality: device.quality,
            battery: device.battery,
            on_battery: device.on_battery,
            coordinator: device.coordinates,
            paused: device.paused,
            open,
            seen_at: device.seen_at,
        }
    }
}
