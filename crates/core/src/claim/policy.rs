//! The policy of an installation for device runs: weights of the selection, and timeouts per kind.

use std::collections::BTreeMap;
use std::time::Duration;

use super::choose::Weights;
use super::settings::Settings;
use crate::id::Name;
use crate::problem::Problem;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Policy {
    pub weights: Weights,
    /// Default settings for kinds without their own.
    pub settings: Settings,
    pub kinds: BTreeMap<Name, Settings>,
}

impl Policy {
    /// The settings of runs of this kind, before their own overrides.
    pub fn of(&self, kind: &Name) -> &Settings {
        self.kinds.get(kind).unwrap_or(&self.settings)
    }

    /// Validation problems, each with its path.
    pub fn problems(&self) -> Vec<Problem> {
        let Weights { load, quality, rank, relevant } = self.weights;
        let weights = [("load", load), ("quality", quality), ("rank", rank), ("relevant", relevant)];
        let is_wrong = |(_, weight): &(&str, f64)| !weight.is_finite() || *weight < 0.0;
        let wrong = weights.into_iter().filter(is_wrong).map(|(name, weight)| {
            Problem::new(format!("weights.{name}"), format!("is {weight}, must be a number from 0 on"))
        });
        let kinds = self.kinds.iter().map(|(kind, settings)| (format!("kinds.{kind}."), settings));
        let all = std::iter::once((String::new(), &self.settings)).chain(kinds);
        wrong.chain(all.flat_map(|(path, settings)| settings.problems(&path))).collect()
    }
}

impl Settings {
    /// Validation problems, each with its path below `path`.
    pub fn problems(&self, path: &str) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut wrong =
            |name: &str, message: &str| problems.push(Problem::new(format!("{path}{name}"), message));
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
    fn a_kind_has_its_own_settings_and_others_have_the_common_ones() {
        let render = Settings { max_reassignments: 2, ..Settings::default() };
        let name = |text| Name::parse(text).unwrap();
        let policy = Policy { kinds: [(name("render"), render.clone())].into(), ..Policy::default() };
        assert_eq!(policy.of(&name("render")), &render);
        assert_eq!(policy.of(&name("other")), &Settings::default());
        assert!(policy.problems().is_empty());
    }

    #[test]
    fn everything_that_is_wrong_is_told_with_its_place() {
        let mut policy = Policy::default();
        policy.weights.rank = f64::NAN;
        policy.settings.claim_timeout = Duration::ZERO;
        let slow = Settings { heartbeat: Duration::from_secs(90), ..Settings::default() };
        policy.kinds.insert(Name::parse("render").unwrap(), slow);
        let paths: Vec<String> = policy.problems().iter().map(|problem| problem.path.clone()).collect();
        assert_eq!(paths, ["weights.rank", "claim_timeout", "kinds.render.heartbeat"]);
    }
}
