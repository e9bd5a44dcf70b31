//! Settings of device runs: `[devices]`, the weights of the score, and overrides per kind.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use millstream_core::claim::{self, Policy, Settings};
use millstream_core::id::Name;
use serde::{Deserialize, Serialize};

use crate::config::Span;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Devices {
    pub assignment_timeout: Span,
    pub claim_timeout: Span,
    pub heartbeat: Span,
    pub heartbeat_timeout: Span,
    pub reachable: Span,
    pub max_reassignments: u32,
    pub backoff: Backoff,
    pub weights: Weights,
    pub kinds: BTreeMap<String, Kind>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Backoff {
    pub first: Span,
    pub max: Span,
    pub rounds: u32,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Weights {
    pub load: f64,
    pub quality: f64,
    pub rank: f64,
    pub relevant: f64,
}

/// Overrides for runs of one kind.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Kind {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assignment_timeout: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim_timeout: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heartbeat: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heartbeat_timeout: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reachable: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_reassignments: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,
}

impl Devices {
    /// Fails with all invalid values, each with its key.
    pub fn policy(&self) -> Result<Policy> {
        let Weights { load, quality, rank, relevant } = self.weights;
        let settings = Settings {
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
                Ok(name) => drop(kinds.insert(name, kind.over(&settings))),
                Err(error) => wrong.push(format!("devices.kinds.{name}: invalid kind name: {error}")),
            }
        }
        let weights = claim::Weights { load, quality, rank, relevant };
        let policy = Policy { weights, settings, kinds };
        wrong.extend(policy.problems().iter().map(|problem| format!("devices.{problem}")));
        if !wrong.is_empty() {
            bail!("settings: {}", wrong.join("; "));
        }
        Ok(policy)
    }
}

impl Kind {
    fn over(&self, common: &Settings) -> Settings {
        let or = |own: Option<Span>, common| own.map_or(common, |own| own.0);
        Settings {
            assignment_timeout: or(self.assignment_timeout, common.assignment_timeout),
            claim_timeout: or(self.claim_timeout, common.claim_timeout),
            heartbeat: or(self.heartbeat, common.heartbeat),
            heartbeat_timeout: or(self.heartbeat_timeout, common.heartbeat_timeout),
            reachable: or(self.reachable, common.reachable),
            max_reassignments: self.max_reassignments.unwrap_or(common.max_reassignments),
            backoff: self.backoff.map_or(common.backoff, claim::Backoff::from),
        }
    }
}

impl From<Backoff> for claim::Backoff {
    fn from(written: Backoff) -> Self {
        Self { first: written.first.0, max: written.max.0, rounds: written.rounds }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::{Config, Flags, load};

    fn with(text: &str) -> Result<Config> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("m.toml");
        std::fs::write(&file, text).unwrap();
        load(Some(Path::new(&file)), std::iter::empty(), &Flags::default())
    }

    #[test]
    fn without_a_word_everything_is_as_the_core_has_it() {
        assert_eq!(with("").unwrap().devices.policy().unwrap(), Policy::default());
    }

    #[test]
    fn a_kind_has_what_it_says_and_else_what_all_have() {
        let text = "
[devices]
heartbeat_timeout = \"2m\"
[devices.weights]
rank = 0
[devices.kinds.render]
claim_timeout = \"1h\"
backoff = { first = \"1s\", max = \"9s\", rounds = 3 }
";
        let policy = with(text).unwrap().devices.policy().unwrap();
        let render = policy.of(&Name::parse("render").unwrap());
        assert_eq!((render.claim_timeout.as_secs(), render.heartbeat_timeout.as_secs()), (3600, 120));
        assert_eq!((render.backoff.rounds, policy.weights.rank), (3, 0.0));
        assert_eq!(policy.of(&Name::parse("other").unwrap()).claim_timeout.as_secs(), 300);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_key() {
        let text = "
[devices.weights]
load = -1
[devices.kinds.render]
heartbeat = \"5m\"
[devices.kinds.\"no name\"]
";
        let error = with(text).unwrap().devices.policy().unwrap_err().to_string();
        for key in ["devices.weights.load", "devices.kinds.render.heartbeat", "devices.kinds.no name"] {
            assert!(error.contains(key), "{error}");
        }
        let unknown = with("[devices.kinds.render]\nclaim = \"1h\"\n").unwrap_err().to_string();
        assert!(unknown.contains("claim") && unknown.contains("devices.kinds.render"), "{unknown}");
    }
}
