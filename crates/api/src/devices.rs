//! Devices: registration, heartbeats and views.

use std::collections::BTreeSet;

use millstream_model::time::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::runs::{RunProgress, RunStatus, SeatHolder};
use crate::scalar;

/// A device to register, or the new description of a registered device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct NewDevice {
    /// Part of the path of the request.
    #[serde(skip)]
    pub id: String,
    /// Its capabilities: it gets runs whose `requires` they cover completely.
    #[serde(default)]
    #[schemars(with = "Vec<scalar::Name>", length(max = 100))]
    pub capabilities: BTreeSet<String>,
    /// Its overall capability, which is its rank in the election of the coordinator: the highest comes first.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub capability: u32,
    /// Number of seats that it takes at once; unlimited if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub capacity: Option<u32>,
    /// Its load: 0 is idle, 1 is full.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1))]
    pub load: f64,
    /// The quality of its connection: 1 is the best.
    #[serde(default = "best_quality")]
    #[schemars(range(min = 0, max = 1))]
    pub quality: f64,
    /// Charge of its battery in percent; left out if it has no battery.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub battery: Option<u8>,
    /// Whether it runs on battery now.
    #[serde(default)]
    pub on_battery: bool,
    /// Whether it may be elected coordinator.
    #[serde(default)]
    pub coordinator: bool,
}

const fn best_quality() -> f64 {
    1.0
}

/// A registered device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Device", deny_unknown_fields)]
pub struct DeviceView {
    #[schemars(with = "scalar::DeviceId")]
    pub device_id: String,
    /// Its capabilities: it gets runs whose `requires` they cover completely.
    #[schemars(with = "BTreeSet<scalar::Name>", length(max = 100))]
    pub capabilities: BTreeSet<String>,
    /// Its overall capability, which is its rank in the election of the coordinator: the highest comes first.
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub capability: u32,
    /// Number of seats that it takes at once; null: unlimited.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub capacity: Option<u32>,
    /// Its load, as last reported: 0 is idle, 1 is full.
    #[schemars(range(min = 0, max = 1))]
    pub load: f64,
    /// The quality of its connection, as last reported: 1 is the best.
    #[schemars(range(min = 0, max = 1))]
    pub quality: f64,
    /// Charge of its battery in percent; null if it has no battery.
    #[schemars(range(min = 0, max = 100))]
    pub battery: Option<u8>,
    /// Whether it runs on battery.
    pub on_battery: bool,
    /// Whether it may be elected coordinator.
    pub coordinator: bool,
    /// An operator has paused it: it gets no new runs.
    pub paused: bool,
    /// Number of seats that it holds or is offered.
    pub open: u32,
    /// The time of its last heartbeat or registration.
    #[schemars(with = "scalar::Time")]
    pub seen_at: Timestamp,
}

/// State of a device. A field that is left out keeps its value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceVitals {
    /// Its load: 0 is idle, 1 is full.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1))]
    pub load: Option<f64>,
    /// The quality of its connection: 1 is the best.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1))]
    pub quality: Option<f64>,
    /// Charge of its battery in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub battery: Option<u8>,
    /// Whether it runs on battery now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_battery: Option<bool>,
}

/// The heartbeat of a device: its state, and the runs that it works on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct DeviceHeartbeat {
    #[serde(flatten)]
    pub vitals: DeviceVitals,
    /// The runs that it works on.
    #[serde(default)]
    #[schemars(length(max = 256))]
    pub runs: Vec<RunHeartbeat>,
}

/// A run that a device works on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct RunHeartbeat {
    #[schemars(with = "scalar::RunId")]
    pub run_id: String,
    /// The number of its seat.
    #[serde(default)]
    pub seat: u16,
    #[schemars(with = "scalar::AssignmentToken")]
    pub token: i64,
    /// Progress since the last report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<RunProgress>,
}

/// The answer to a heartbeat: the given runs, in their order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct DeviceHeard {
    pub runs: Vec<RunHeartbeatAnswer>,
}

/// Whether a device still has a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct RunHeartbeatAnswer {
    #[schemars(with = "scalar::RunId")]
    pub run_id: String,
    /// The number of its seat.
    pub seat: u16,
    #[schemars(with = "scalar::AssignmentToken")]
    pub token: i64,
    /// Whether the device holds the seat, or is offered it.
    pub held: bool,
    /// The device must stop working on it.
    pub release: bool,
    /// An operator has paused the run.
    pub paused: bool,
    /// The deadline of the next heartbeat, if the device has accepted the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<scalar::Time>")]
    pub until: Option<Timestamp>,
    /// The status of the seat, if the device does not hold it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<RunStatus>,
    /// The device that holds the seat instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<SeatHolder>,
}

impl NewDevice {
    /// Without capabilities, for any number of runs at once.
    pub fn of(id: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            capabilities: BTreeSet::new(),
            capability: 0,
            capacity: None,
            load: 0.0,
            quality: best_quality(),
            battery: None,
            on_battery: false,
            coordinator: false,
        }
    }

    /// Adds a capability: the device gets runs whose `requires` it covers completely.
    #[must_use]
    pub fn can(mut self, capability: impl Into<String>) -> Self {
        self.capabilities.insert(capability.into());
        self
    }

    /// How many seats it takes at once.
    #[must_use]
    pub fn capacity(mut self, seats: u32) -> Self {
        self.capacity = Some(seats);
        self
    }

    /// Rank in the election of the coordinator: the highest comes first.
    #[must_use]
    pub fn capability(mut self, capability: u32) -> Self {
        self.capability = capability;
        self
    }

    /// 0 to 1.
    #[must_use]
    pub fn load(mut self, load: f64) -> Self {
        self.load = load;
        self
    }

    /// Quality of its connection, 0 to 1. 1 by default.
    #[must_use]
    pub fn quality(mut self, quality: f64) -> Self {
        self.quality = quality;
        self
    }

    /// It runs on battery, with this charge left.
    #[must_use]
    pub fn on_battery(mut self, percent: u8) -> Self {
        (self.battery, self.on_battery) = (Some(percent), true);
        self
    }

    /// It may be elected coordinator.
    #[must_use]
    pub fn coordinator(mut self) -> Self {
        self.coordinator = true;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_device_matches_api() {
        let device = NewDevice::of("phone").can("render").capacity(2).on_battery(80);
        assert_eq!(
            serde_json::to_string(&device).unwrap(),
            r#"{"capabilities":["render"],"capability":0,"capacity":2,"load":0.0,"quality":1.0,"battery":80,"on_battery":true,"coordinator":false}"#
        );
    }
}
