//! The policy of an installation for device runs: weights of the selection, and timeouts per kind.

use std::collections::BTreeMap;
use std::time::Duration;

use millstream_model::id::Name;
use millstream_model::problem::ValidationProblem;

use super::select_device::SelectionWeights;
use super::settings::RunSettings;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct DevicePolicy {
    pub weights: SelectionWeights,
    /// Default settings for kinds without their own.
    pub settings: RunSettings,
    pub kinds: BTreeMap<Name, RunSettings>,
}

impl DevicePolicy {
    /// The settings of runs of this kind, before their own overrides.
    pub fn settings_of(&self, kind: &Name) -> &RunSettings {
        self.kinds.get(kind).unwrap_or(&self.settings)
    }

    /// Validation problems, each with its path.
    pub fn find_problems(&self) -> Vec<ValidationProblem> {
        let SelectionWeights { load, quality, rank, relevant } = self.weights;
        let weights = [("load", load), ("quality", quality), ("rank", rank), ("relevant", relevant)];
        let is_wrong = |(_, weight): &(&str, f64)| !weight.is_finite() || *weight < 0.0;
        let wrong = weights.into_iter().filter(is_wrong).map(|(name, weight)| {
            ValidationProblem::new(
                format!("weights.{name}"),
                format!("is {weight}, must be a number from 0 on"),
            )
        });
        let kinds = self.kinds.iter().map(|(kind, settings)| (format!("kinds.{kind}."), settings));
        let all = std::iter::once((String::new(), &self.settings)).chain(kinds);
        wrong.chain(all.flat_map(|(path, settings)| settings.find_problems(&path))).collect()
    }
}

impl RunSettings {
    /// Validation problems, each with its path below `path`.
    pub fn find_problems(&self, path: &str) -> Vec<ValidationProblem> {
        let mut problems = Vec::new();
        let mut wrong = |name: &str, message: &str| {
            problems.push(ValidationProblem::new(format!("{path}{name}"), message))
        };
        let times = [
            ("assignment_timeout", self.assignment_timeout),
            ("claim_timeout", self.claim_timeout),
            ("heartbeat", self.heartbeat),
            ("heartbeat_timeout", self.heartbeat_timeout),
            ("reachable", self.reachable),
            ("backoff.first", self.backoff.first),
        ];
        for (name, _) in times.into_iter().filter(|(_, time)| *time < Duration::from_millis(1)) {
            wrong(name, "must not be zero");
        }
        if self.heartbeat >= self.heartbeat_timeout {
            wrong("heartbeat", "must be shorter than heartbeat_timeout");
        }
        if self.backoff.max < self.backoff.first {
            wrong("backoff.max", "must not be shorter than backoff.first");
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_policy_selects_settings_by_kind() {
        let render = RunSettings { max_reassignments: 2, ..RunSettings::default() };
        let name = |text| Name::parse(text).unwrap();
        let policy =
            DevicePolicy { kinds: [(name("render"), render.clone())].into(), ..DevicePolicy::default() };
        assert_eq!(policy.settings_of(&name("render")), &render);
        assert_eq!(policy.settings_of(&name("other")), &RunSettings::default());
        assert!(policy.find_problems().is_empty());
    }

    #[test]
    fn device_policy_problems_name_their_path() {
        let mut policy = DevicePolicy::default();
        policy.weights.rank = f64::NAN;
        policy.settings.claim_timeout = Duration::ZERO;
        let slow = RunSettings { heartbeat: Duration::from_secs(90), ..RunSettings::default() };
        policy.kinds.insert(Name::parse("render").unwrap(), slow);
        let paths: Vec<String> = policy.find_problems().iter().map(|problem| problem.path.clone()).collect();
        assert_eq!(paths, ["weights.rank", "claim_timeout", "kinds.render.heartbeat"]);
    }
}
