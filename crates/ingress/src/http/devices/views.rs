//! JSON view of a device, and the description that a device sends of itself.

use std::collections::BTreeSet;

use millstream_devices::claim::DeviceCandidate;
use millstream_model::id::{DeviceId, Name};
use millstream_model::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::devices::registration::DeviceRegistration;
use crate::http::strict_json::{whole, whole_or_none};

/// Registration of a device.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(super) struct NewDeviceRequest {
    #[serde(default)]
    capabilities: BTreeSet<Name>,
    #[serde(default, deserialize_with = "whole")]
    capability: u32,
    #[serde(default, deserialize_with = "whole_or_none")]
    capacity: Option<u32>,
    #[serde(default)]
    load: f64,
    #[serde(default = "best")]
    quality: f64,
    #[serde(default, deserialize_with = "whole_or_none")]
    battery: Option<u8>,
    #[serde(default)]
    on_battery: bool,
    #[serde(default)]
    coordinator: bool,
}

const fn best() -> f64 {
    1.0
}

impl From<NewDeviceRequest> for DeviceRegistration {
    fn from(given: NewDeviceRequest) -> Self {
        Self {
            capabilities: given.capabilities,
            capability: given.capability,
            capacity: given.capacity,
            load: given.load,
            quality: given.quality,
            battery: given.battery,
            on_battery: given.on_battery,
            coordinator: given.coordinator,
        }
    }
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
