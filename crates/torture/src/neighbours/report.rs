//! Report of a neighbour torture, as text and as JSON.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::check::NeighbourFinding;
use super::figures::{AttackFigures, LatencySample};

#[derive(Debug)]
pub struct NeighbourReport {
    pub seed: u64,
    pub took: Duration,
    pub figures: Vec<AttackFigures>,
    /// The largest resident memory of each process.
    pub memory_peaks_kib: BTreeMap<String, u64>,
    pub findings: Vec<NeighbourFinding>,
    /// Output of the processes.
    pub outputs: String,
}

impl NeighbourReport {
    /// Prints one attack as soon as it is over.
    pub fn print_figures(figures: &AttackFigures) {
        let millis = |sample: &LatencySample, per_mille| sample.quantile(per_mille).as_millis();
        println!(
            "{:18} {:5} sent  accept p50 {:4} p99 {:5} ms  to action p50 {:4} p99 {:5} ms  probes p99 {:5} max {:5} ms",
            figures.attack.name(),
            figures.sent,
            millis(&figures.accept, 500),
            millis(&figures.accept, 990),
            millis(&figures.action, 500),
            millis(&figures.action, 990),
            millis(&figures.health, 990),
            figures.health.max().as_millis(),
        );
        println!("{:18} {:?}", "", figures.tally);
    }

    pub fn print(&self) {
        let peaks: Vec<_> =
            self.memory_peaks_kib.iter().map(|(name, kib)| format!("{name} {} MiB", kib / 1024)).collect();
        println!("\nlargest memory: {}", peaks.join(", "));
        for finding in &self.findings {
            println!("  {finding}");
        }
        let verdict = match self.findings.len() {
            0 => "the honest tenant was served as promised".to_owned(),
            count => format!("{count} VIOLATIONS"),
        };
        println!("\nseed {}: {verdict} ({:.0?})", self.seed, self.took);
    }

    pub fn json(&self) -> Value {
        let sample = |sample: &LatencySample| {
            json!({ "count": sample.len(), "p50_ms": sample.quantile(500).as_millis(),
                    "p99_ms": sample.quantile(990).as_millis(), "max_ms": sample.max().as_millis() })
        };
        let figures: Vec<Value> = self
            .figures
            .iter()
            .map(|figures| {
                json!({ "attack": figures.attack.name(), "sent": figures.sent, "accept": sample(&figures.accept),
                        "action": sample(&figures.action), "probes": sample(&figures.health),
                        "refused": figures.refused, "lost": figures.lost, "attack_tally": figures.tally })
            })
            .collect();
        let findings: Vec<String> = self.findings.iter().map(ToString::to_string).collect();
        json!({ "seed": self.seed, "seconds": self.took.as_secs_f64(), "attacks": figures,
                "memory_peaks_kib": self.memory_peaks_kib, "violations": findings })
    }
}
