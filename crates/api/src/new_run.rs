//! A run to create.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::run_settings::RunOverrides;
use crate::runs::RunAssignmentMode;
use crate::scalar;

/// Work for a device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct NewRun {
    /// Chosen by the caller: creating it again with the same content creates nothing. Generated if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<scalar::RunId>")]
    pub run_id: Option<String>,
    #[schemars(with = "scalar::Name")]
    pub kind: String,
    /// Capabilities that a device must have.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    #[schemars(with = "Vec<scalar::Name>", length(max = 100))]
    pub requires: BTreeSet<String>,
    /// Capabilities that a device should have: it is preferred.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    #[schemars(with = "Vec<scalar::Name>", length(max = 100))]
    pub prefer: BTreeSet<String>,
    /// Any JSON.
    #[serde(default)]
    pub input: Value,
    /// The highest comes first.
    #[serde(default)]
    #[schemars(range(min = -2_147_483_648_i64, max = 2_147_483_647_i64))]
    pub priority: i32,
    /// Whether it may take a device from work of lower priority.
    #[serde(default)]
    pub preempt: bool,
    /// Whether the elected coordinator is asked first.
    #[serde(default)]
    pub coordinator: bool,
    /// The charge that a device on battery must have, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub min_battery: Option<u8>,
    /// Number of devices that work on it in parallel.
    #[serde(default = "one_device")]
    #[schemars(range(min = 1, max = 100))]
    pub devices: u16,
    /// The device that creates it: it is asked first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<scalar::DeviceId>")]
    pub created_by: Option<String>,
    /// Whether the device that creates it offers to take it.
    #[serde(default = "is_willing")]
    pub willing: bool,
    #[serde(default = "assigned_by_server")]
    pub assign: RunAssignmentMode,
    #[serde(default, skip_serializing_if = "RunOverrides::is_empty")]
    pub settings: RunOverrides,
}

const fn one_device() -> u16 {
    1
}

const fn is_willing() -> bool {
    true
}

const fn assigned_by_server() -> RunAssignmentMode {
    RunAssignmentMode::Auto
}

impl NewRun {
    /// For any device, with a random id: the same value creates the same run, however often it is sent.
    pub fn of(kind: impl Into<String>) -> Self {
        Self {
            run_id: Some(Uuid::now_v7().to_string()),
            kind: kind.into(),
            requires: BTreeSet::new(),
            prefer: BTreeSet::new(),
            input: Value::Null,
            priority: 0,
            preempt: false,
            coordinator: false,
            min_battery: None,
            devices: one_device(),
            created_by: None,
            willing: is_willing(),
            assign: assigned_by_server(),
            settings: RunOverrides::default(),
        }
    }

    /// A caller-supplied id: creating it twice with the same content creates it once.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.run_id = Some(id.into());
        self
    }

    #[must_use]
    pub fn input(mut self, input: Value) -> Self {
        self.input = input;
        self
    }

    /// Adds a capability that the device must have.
    #[must_use]
    pub fn requires(mut self, capability: impl Into<String>) -> Self {
        self.requires.insert(capability.into());
        self
    }

    /// Adds a capability that the device should have.
    #[must_use]
    pub fn prefers(mut self, capability: impl Into<String>) -> Self {
        self.prefer.insert(capability.into());
        self
    }

    /// The highest comes first. 0 by default.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// It may preempt work of lower priority.
    #[must_use]
    pub fn preempting(mut self) -> Self {
        self.preempt = true;
        self
    }

    /// The elected coordinator is asked first.
    #[must_use]
    pub fn coordinator_first(mut self) -> Self {
        self.coordinator = true;
        self
    }

    /// The charge that a device on battery must have, in percent.
    #[must_use]
    pub fn min_battery(mut self, percent: u8) -> Self {
        self.min_battery = Some(percent);
        self
    }

    /// Number of devices, each of which performs the run independently.
    #[must_use]
    pub fn devices(mut self, seats: u16) -> Self {
        self.devices = seats;
        self
    }

    /// The device that creates it; preferred if it is able.
    #[must_use]
    pub fn created_by(mut self, device: impl Into<String>) -> Self {
        self.created_by = Some(device.into());
        self
    }

    /// The device that creates it does not take it.
    #[must_use]
    pub fn for_others(mut self) -> Self {
        self.willing = false;
        self
    }

    /// An operator assigns its devices; the server asks none.
    #[must_use]
    pub fn assigned_manually(mut self) -> Self {
        self.assign = RunAssignmentMode::Manual;
        self
    }

    /// Settings that differ from those of its kind.
    #[must_use]
    pub fn settings(mut self, settings: RunOverrides) -> Self {
        self.settings = settings;
        self
    }
}
