//! Measurements during one attack.

use std::collections::BTreeMap;
use std::time::Duration;

use super::attack::NeighbourAttack;

/// Durations of one kind, sorted.
#[derive(Debug, Clone, Default)]
pub struct LatencySample(Vec<Duration>);

impl LatencySample {
    pub fn from_durations(mut durations: Vec<Duration>) -> Self {
        durations.sort_unstable();
        Self(durations)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The smallest duration that `per_mille` of a thousand do not exceed. Zero for an empty sample.
    pub fn quantile(&self, per_mille: usize) -> Duration {
        let rank = (self.0.len() * per_mille).div_ceil(1000).max(1) - 1;
        self.0.get(rank).copied().unwrap_or_default()
    }

    pub fn max(&self) -> Duration {
        self.0.last().copied().unwrap_or_default()
    }
}

/// Operations of the attacker and the answers, by label: "requests", "status 401", "connections refused".
pub type AttackTally = BTreeMap<String, u64>;

/// One attack as observed by the honest tenant and the probes.
#[derive(Debug, Clone)]
pub struct AttackFigures {
    pub attack: NeighbourAttack,
    /// Events that the honest tenant sent.
    pub sent: usize,
    /// From sending an event to its 202.
    pub accept: LatencySample,
    /// From sending an event to the arrival of its action at the target.
    pub action: LatencySample,
    /// Sends with an answer other than 202, by answer.
    pub refused: BTreeMap<String, usize>,
    /// Accepted events whose action has not arrived in time.
    pub lost: usize,
    /// Answers of `/healthz`, `/readyz` and `/metrics`.
    pub health: LatencySample,
    /// Unsuccessful probes, by cause.
    pub health_failures: BTreeMap<String, usize>,
    pub tally: AttackTally,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latency_sample(millis: impl IntoIterator<Item = u64>) -> LatencySample {
        LatencySample::from_durations(millis.into_iter().map(Duration::from_millis).collect())
    }

    #[test]
    fn quantiles_are_members_of_the_sample() {
        let hundred = latency_sample((1..=100).rev());
        assert_eq!(hundred.quantile(500), Duration::from_millis(50));
        assert_eq!(hundred.quantile(990), Duration::from_millis(99));
        assert_eq!(hundred.max(), Duration::from_millis(100));
        assert_eq!(latency_sample([7]).quantile(990), Duration::from_millis(7));
    }

    #[test]
    fn an_empty_sample_has_no_latency() {
        assert_eq!(latency_sample([]).quantile(990), Duration::ZERO);
    }
}
