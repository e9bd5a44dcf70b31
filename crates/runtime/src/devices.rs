//! Settings of device runs: `[devices]`, the weights of the score, and overrides per kind.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use millstream_devices::claim::{self, DevicePolicy, RunSettings};
use millstream_model::id::Name;
use serde::{Deserialize, Serialize};

use crate::setting_values::DurationSetting;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceSettings {
    pub assignment_timeout: DurationSetting,
    pub claim_timeout: DurationSetting,
    pub heartbeat: DurationSetting,
    pub heartbeat_timeout: DurationSetting,
    pub reachable: DurationSetting,
    pub max_reassignments: u32,
    pub backoff: DeviceBackoffSettings,
    pub weights: DeviceWeightSettings,
    pub kinds: BTreeMap<String, DeviceKindSettings>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceBackoffSettings {
    pub first: DurationSetting,
    pub max: DurationSetting,
    pub rounds: u32,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceWeightSettings {
    pub load: f64,
    pub quality: f64,
    pub rank: f64,
    pub relevant: f64,
}

/// Overrides for runs of one kind.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DeviceKindSettings {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assignment_timeout: Option<DurationSetting>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim_timeout: Option<DurationSetting>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heartbeat: Option<DurationSetting>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heartbeat_timeout: Option<DurationSetting>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reachable: Option<DurationSetting>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_reassignments: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<DeviceBackoffSettings>,
}

impl DeviceSettings {
    /// Fails with all invalid values, each with its key.
    pub fn device_policy(&self) -> Result<DevicePolicy> {
        let DeviceWeightSettings { load, quality, rank, relevant } = self.weights;
        let settings = RunSettings {
            assignment_timeout: self.assignment_timeout.0,
            claim_timeout: self.claim_timeout.0,
            heartbeat: self.heartbeat.0,
            heartbeat_timeout: self.heartbeat_timeout.0,
            reachable: self.reachable.0,
            max_reassignments: self.max_reassignments,
            backoff: self.backoff.into(),
        };
        let mut wrong: Vec<String> = Vec::new();
        let mut kinds = BTreeMap::new();
        for (name, kind) in &self.kinds {
            match Name::parse(name) {
                Ok(name) => drop(kinds.insert(name, kind.override_settings(&settings))),
                Err(error) => wrong.push(format!("devices.kinds.{name}: invalid kind name: {error}")),
            }
        }
        let weights = claim::SelectionWeights { load, quality, rank, relevant };
        let policy = DevicePolicy { weights, settings, kinds };
        wrong.extend(policy.find_problems().iter().map(|problem| format!("devices.{problem}")));
        if !wrong.is_empty() {
            bail!("settings: {}", wrong.join("; "));
        }
        Ok(policy)
    }
}

impl DeviceKindSettings {
    fn override_settings(&self, common: &RunSettings) -> RunSettings {
        let or = |own: Option<DurationSetting>, common| own.map_or(common, |own| own.0);
        RunSettings {
            assignment_timeout: or(self.assignment_timeout, common.assignment_timeout),
            claim_timeout: or(self.claim_timeout, common.claim_timeout),
            heartbeat: or(self.heartbeat, common.heartbeat),
            heartbeat_timeout: or(self.heartbeat_timeout, common.heartbeat_timeout),
            reachable: or(self.reachable, common.reachable),
            max_reassignments: self.max_reassignments.unwrap_or(common.max_reassignments),
            backoff: self.backoff.map_or(common.backoff, claim::SeatBackoff::from),
        }
    }
}

impl From<DeviceBackoffSettings> for claim::SeatBackoff {
    fn from(written: DeviceBackoffSettings) -> Self {
        Self { first: written.first.0, max: written.max.0, rounds: written.rounds }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::{Config, ConfigFlags, merge_layers};

    fn config_with(text: &str) -> Result<Config> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("m.toml");
        std::fs::write(&file, text).unwrap();
        merge_layers(Some(Path::new(&file)), std::iter::empty(), &ConfigFlags::default())
    }

    #[test]
    fn device_settings_default_to_core() {
        assert_eq!(config_with("").unwrap().devices.device_policy().unwrap(), DevicePolicy::default());
    }

    #[test]
    fn device_kind_overrides_common_settings() {
        let text = "
[devices]
heartbeat_timeout = \"2m\"
[devices.weights]
rank = 0
[devices.kinds.render]
claim_timeout = \"1h\"
backoff = { first = \"1s\", max = \"9s\", rounds = 3 }
";
        let policy = config_with(text).unwrap().devices.device_policy().unwrap();
        let render = policy.settings_of(&Name::parse("render").unwrap());
        assert_eq!((render.claim_timeout.as_secs(), render.heartbeat_timeout.as_secs()), (3600, 120));
        assert_eq!((render.backoff.rounds, policy.weights.rank), (3, 0.0));
        assert_eq!(policy.settings_of(&Name::parse("other").unwrap()).claim_timeout.as_secs(), 300);
    }

    #[test]
    fn invalid_device_setting_names_key() {
        let text = "
[devices.weights]
load = -1
[devices.kinds.render]
heartbeat = \"5m\"
[devices.kinds.\"no name\"]
";
        let error = config_with(text).unwrap().devices.device_policy().unwrap_err().to_string();
        for key in ["devices.weights.load", "devices.kinds.render.heartbeat", "devices.kinds.no name"] {
            assert!(error.contains(key), "{error}");
        }
        let unknown = config_with("[devices.kinds.render]\nclaim = \"1h\"\n").unwrap_err().to_string();
        assert!(unknown.contains("claim") && unknown.contains("devices.kinds.render"), "{unknown}");
    }
}
