//! Guarantees during and after the attacks. Pure: figures in, findings out.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::attack::NeighbourAttack;
use super::figures::AttackFigures;

/// Bounds for the figures.
#[derive(Debug, Clone, Copy)]
pub struct NeighbourBounds {
    pub accept_p99: Duration,
    pub action_p99: Duration,
    pub health: Duration,
    pub memory_kib: u64,
}

/// A violated guarantee.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeighbourFinding {
    /// The attack, the process or the table concerned.
    pub subject: String,
    pub what: String,
}

impl NeighbourFinding {
    pub fn new_finding(subject: impl Into<String>, what: impl Into<String>) -> Self {
        Self { subject: subject.into(), what: what.into() }
    }
}

impl fmt::Display for NeighbourFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.subject, self.what)
    }
}

/// Findings of one attack.
pub fn check_attack(figures: &AttackFigures, bounds: &NeighbourBounds) -> Vec<NeighbourFinding> {
    let mut found = Vec::new();
    let mut find = |what: String| found.push(NeighbourFinding::new_finding(figures.attack.name(), what));
    if figures.lost > 0 {
        find(format!("{} accepted events of the honest tenant have no action", figures.lost));
    }
    if figures.sent == 0 {
        find("the honest tenant sent nothing".to_owned());
    }
    if figures.attack != NeighbourAttack::None && figures.tally.values().sum::<u64>() == 0 {
        find("the attack did nothing".to_owned());
    }
    if !figures.attack.is_judged_by_latency() {
        return found;
    }
    if !figures.refused.is_empty() {
        find(format!("the honest tenant was refused: {:?}", figures.refused));
    }
    if !figures.health_failures.is_empty() {
        find(format!("probes failed: {:?}", figures.health_failures));
    }
    let latencies = [
        ("accept p99", figures.accept.quantile(990), bounds.accept_p99),
        ("event to action p99", figures.action.quantile(990), bounds.action_p99),
        ("slowest probe", figures.health.max(), bounds.health),
    ];
    for (name, seen, allowed) in latencies {
        if seen > allowed {
            find(format!("{name} is {seen:.0?}, allowed are {allowed:?}"));
        }
    }
    found
}

/// Findings about the memory of processes.
pub fn check_memory(peaks_kib: &BTreeMap<String, u64>, bounds: &NeighbourBounds) -> Vec<NeighbourFinding> {
    let exceeds = |(name, peak): (&String, &u64)| {
        let what = format!("reached {} MiB, allowed are {}", peak / 1024, bounds.memory_kib / 1024);
        (*peak > bounds.memory_kib).then(|| NeighbourFinding::new_finding(name, what))
    };
    peaks_kib.iter().filter_map(exceeds).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::neighbours::figures::LatencySample;

    fn latency_sample(millis: u64) -> LatencySample {
        LatencySample::from_durations(vec![Duration::from_millis(millis); 100])
    }

    fn attack_figures(attack: NeighbourAttack) -> AttackFigures {
        AttackFigures {
            attack,
            sent: 100,
            accept: latency_sample(5),
            action: latency_sample(20),
            refused: BTreeMap::new(),
            lost: 0,
            health: latency_sample(2),
            health_failures: BTreeMap::new(),
            tally: BTreeMap::from([("requests".to_owned(), 1)]),
        }
    }

    const BOUNDS: NeighbourBounds = NeighbourBounds {
        accept_p99: Duration::from_millis(100),
        action_p99: Duration::from_millis(500),
        health: Duration::from_secs(1),
        memory_kib: 1024,
    };

    fn findings_after(change: impl FnOnce(&mut AttackFigures)) -> Vec<NeighbourFinding> {
        let mut figures = attack_figures(NeighbourAttack::Tails);
        change(&mut figures);
        check_attack(&figures, &BOUNDS)
    }

    #[test]
    fn attack_figures_within_bounds_pass() {
        assert_eq!(findings_after(|_| {}), []);
    }

    #[test]
    fn each_broken_promise_is_one_finding() {
        assert_eq!(findings_after(|figures| figures.accept = latency_sample(101)).len(), 1);
        assert_eq!(findings_after(|figures| figures.action = latency_sample(501)).len(), 1);
        assert_eq!(findings_after(|figures| figures.health = latency_sample(1001)).len(), 1);
        assert_eq!(findings_after(|figures| figures.lost = 1).len(), 1);
        assert_eq!(findings_after(|figures| figures.tally.clear()).len(), 1);
        assert_eq!(
            findings_after(|figures| figures.refused = BTreeMap::from([("status 429".to_owned(), 1)])).len(),
            1
        );
        assert_eq!(
            findings_after(|figures| figures.health_failures = BTreeMap::from([("x".to_owned(), 1)])).len(),
            1
        );
    }

    #[test]
    fn latency_is_not_judged_during_faults() {
        let mut broken = attack_figures(NeighbourAttack::BurstWithFaults);
        broken.accept = latency_sample(5_000);
        assert_eq!(check_attack(&broken, &BOUNDS), []);
        broken.lost = 1;
        assert_eq!(check_attack(&broken, &BOUNDS).len(), 1);
    }

    #[test]
    fn process_beyond_memory_bound_is_named() {
        let peaks = BTreeMap::from([("worker-0".to_owned(), 1025), ("ingress".to_owned(), 1024)]);
        let found = check_memory(&peaks, &BOUNDS);
        assert_eq!(found.iter().map(|found| found.subject.as_str()).collect::<Vec<_>>(), ["worker-0"]);
    }
}
