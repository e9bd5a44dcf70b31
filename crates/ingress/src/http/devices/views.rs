//! JSON view of a device, and the description that a device sends of itself.

use std::collections::BTreeSet;

use millstream_api::devices::DeviceView;
use millstream_devices::claim::DeviceCandidate;
use millstream_model::id::Name;
use serde::Deserialize;

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

pub(super) fn device_view(DeviceCandidate { device, open }: DeviceCandidate) -> DeviceView {
    DeviceView {
        device_id: device.id.to_string(),
        capabilities: device.capabilities.iter().map(ToString::to_string).collect(),
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
