//! Timeouts and retry limits of device runs, per kind.

use std::time::Duration;

use millstream_model::duration;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunSettings {
    /// Time limit for answering an assignment.
    #[serde(with = "duration::text")]
    pub assignment_timeout: Duration,
    /// Time limit for beginning after acceptance.
    #[serde(with = "duration::text")]
    pub claim_timeout: Duration,
    /// Heartbeat interval of a device with a claim.
    #[serde(with = "duration::text")]
    pub heartbeat: Duration,
    /// Silence after which a device loses its claim.
    #[serde(with = "duration::text")]
    pub heartbeat_timeout: Duration,
    /// Silence after which a device is not eligible any more.
    #[serde(with = "duration::text")]
    pub reachable: Duration,
    /// Maximum number of reassignments of a seat before the run fails. Pre-emption is not counted.
    pub max_reassignments: u32,
    pub backoff: SeatBackoff,
}

impl Default for RunSettings {
    fn default() -> Self {
        Self {
            assignment_timeout: Duration::from_secs(60),
            claim_timeout: Duration::from_secs(300),
            heartbeat: Duration::from_secs(30),
            heartbeat_timeout: Duration::from_secs(90),
            reachable: Duration::from_secs(90),
            max_reassignments: 10,
            backoff: SeatBackoff::default(),
        }
    }
}

/// Settings of one run that override those of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunSettingsOverrides {
    #[serde(with = "duration::optional", skip_serializing_if = "Option::is_none")]
    pub assignment_timeout: Option<Duration>,
    #[serde(with = "duration::optional", skip_serializing_if = "Option::is_none")]
    pub claim_timeout: Option<Duration>,
    #[serde(with = "duration::optional", skip_serializing_if = "Option::is_none")]
    pub heartbeat: Option<Duration>,
    #[serde(with = "duration::optional", skip_serializing_if = "Option::is_none")]
    pub heartbeat_timeout: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_reassignments: Option<u32>,
}

impl RunSettingsOverrides {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Applies these overrides to the settings. If only the heartbeat is overridden, the heartbeat timeout
    /// stays, and the heartbeat interval is kept below the timeout in any case.
    pub fn apply_to(&self, settings: &RunSettings) -> RunSettings {
        let heartbeat_timeout = self.heartbeat_timeout.unwrap_or(settings.heartbeat_timeout);
        let heartbeat = self.heartbeat.unwrap_or(settings.heartbeat);
        RunSettings {
            assignment_timeout: self.assignment_timeout.unwrap_or(settings.assignment_timeout),
            claim_timeout: self.claim_timeout.unwrap_or(settings.claim_timeout),
            heartbeat: if heartbeat < heartbeat_timeout { heartbeat } else { heartbeat_timeout / 3 },
            heartbeat_timeout,
            max_reassignments: self.max_reassignments.unwrap_or(settings.max_reassignments),
            ..settings.clone()
        }
    }
}

/// Exponential backoff after every device declined or none was able. Each rest is twice as long as the
/// previous one; after the last one the run fails. After a rest, devices that declined may be asked again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SeatBackoff {
    #[serde(with = "duration::text")]
    pub first: Duration,
    #[serde(with = "duration::text")]
    pub max: Duration,
    pub rounds: u32,
}

impl Default for SeatBackoff {
    fn default() -> Self {
        Self { first: Duration::from_secs(5), max: Duration::from_secs(600), rounds: 10 }
    }
}

impl SeatBackoff {
    /// Upper bound of a rest while devices are only busy: capacity may become free at any moment.
    pub const LONGEST_WHILE_BUSY: Duration = Duration::from_secs(30);

    /// The length of the rest that follows `before` rests.
    pub fn rest_after(&self, before: u32) -> Duration {
        let doubled = self.first.saturating_mul(2u32.saturating_pow(before.min(30)));
        doubled.min(self.max).max(Duration::from_millis(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seat_backoff_doubles_up_to_maximum() {
        let backoff = SeatBackoff::default();
        let seconds: Vec<u64> = (0..9).map(|before| backoff.rest_after(before).as_secs()).collect();
        assert_eq!(seconds, [5, 10, 20, 40, 80, 160, 320, 600, 600]);
        assert_eq!(backoff.rest_after(u32::MAX).as_secs(), 600);
    }

    #[test]
    fn run_overrides_settings_of_its_kind() {
        let own: RunSettingsOverrides =
            serde_json::from_str(r#"{"heartbeat_timeout":"9s","max_reassignments":2}"#).unwrap();
        let settings = own.apply_to(&RunSettings::default());
        assert_eq!((settings.heartbeat_timeout.as_secs(), settings.max_reassignments), (9, 2));
        assert_eq!(settings.heartbeat.as_secs(), 3, "the heartbeat interval is below the timeout");
        assert_eq!(settings.claim_timeout, RunSettings::default().claim_timeout);
        assert_eq!(
            serde_json::to_string(&own).unwrap(),
            r#"{"heartbeat_timeout":"9s","max_reassignments":2}"#
        );
        assert!(RunSettingsOverrides::default().is_empty() && !own.is_empty());
    }

    #[test]
    fn run_settings_fill_gaps_with_defaults() {
        let written = serde_json::to_string(&RunSettings::default()).unwrap();
        assert_eq!(serde_json::from_str::<RunSettings>(&written).unwrap(), RunSettings::default());
        let short: RunSettings = serde_json::from_str(r#"{"heartbeat_timeout":"9s"}"#).unwrap();
        assert_eq!(short.heartbeat_timeout.as_secs(), 9);
        assert_eq!(short.claim_timeout, RunSettings::default().claim_timeout);
        assert!(serde_json::from_str::<RunSettings>(r#"{"heartbeat_timeout":9}"#).is_err());
    }
}
