//! Report of a device torture, as text and as JSON.

use std::collections::BTreeMap;
use std::time::Duration;

use millstream_devices::claim::{RunInputKind, SeatStatus};
use serde_json::{Value, json};

use super::check::{DeviceEvidence, DeviceFinding, DeviceRule, RunSeen, WaitKind, collect_waits};
use super::options::EngineMode;
use super::record::{DeviceAnswer, UNSENT};

/// Maximum number of shown findings per rule.
const SHOWN: usize = 10;

#[derive(Debug)]
pub struct DeviceTortureReport {
    pub seed: u64,
    pub mode: EngineMode,
    pub devices: usize,
    /// Duration of the fault phase.
    pub wild: Duration,
    /// Time until everything had ended.
    pub took: Duration,
    pub findings: Vec<DeviceFinding>,
    pub evidence: DeviceEvidence,
    /// Output of the processes.
    pub outputs: String,
}

/// Statistics of all waits of one kind, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DelaySpread {
    pub count: usize,
    pub median: i64,
    pub p99: i64,
    pub most: i64,
    /// Maximum excess over the limit of the settings.
    pub beyond: i64,
}

impl DeviceTortureReport {
    pub fn completed_runs(&self) -> usize {
        self.evidence.runs.iter().filter(|run| run.status == SeatStatus::Completed).count()
    }

    /// Failed runs by kind of failure.
    pub fn failed_by_reason(&self) -> BTreeMap<String, usize> {
        let mut failed = BTreeMap::new();
        for run in self.evidence.runs.iter().filter(|run| run.status == SeatStatus::Failed) {
            *failed.entry(failure_reason(run)).or_default() += 1;
        }
        failed
    }

    /// Refusals by operation.
    pub fn refused_by_word(&self) -> BTreeMap<&'static str, usize> {
        let mut refused = BTreeMap::new();
        for act in &self.evidence.clients.acts {
            if matches!(&act.told, DeviceAnswer::Refused { kind } if kind != UNSENT) {
                *refused.entry(act.word.as_str()).or_default() += 1;
            }
        }
        refused
    }

    /// Lost seats by cause, according to the logs.
    pub fn lost_by_reason(&self) -> BTreeMap<&'static str, usize> {
        let mut lost = BTreeMap::new();
        for entry in self.evidence.runs.iter().flat_map(|run| &run.log) {
            if let Some(how) = entry.ended {
                *lost.entry(how.as_str()).or_default() += 1;
            }
        }
        lost
    }

    pub fn count_of_input(&self, word: RunInputKind) -> usize {
        let acts = self.evidence.clients.acts.iter();
        acts.filter(|act| act.word == word && matches!(act.told, DeviceAnswer::Done { .. })).count()
    }

    pub fn delay_spreads(&self) -> BTreeMap<&'static str, DelaySpread> {
        let all = collect_waits(&self.evidence.runs);
        let of_kind = |kind: WaitKind| {
            let mut lengths: Vec<i64> =
                all.iter().filter(|wait| wait.kind == kind).map(|wait| wait.wait_millis()).collect();
            lengths.sort_unstable();
            let at =
                |percent: usize| lengths.get((lengths.len() * percent / 100).min(lengths.len().max(1) - 1));
            let beyond = all.iter().filter(|wait| wait.kind == kind).map(|wait| wait.excess_millis()).max();
            DelaySpread {
                count: lengths.len(),
                median: at(50).copied().unwrap_or(0),
                p99: at(99).copied().unwrap_or(0),
                most: lengths.last().copied().unwrap_or(0),
                beyond: beyond.unwrap_or(0),
            }
        };
        WaitKind::ALL.iter().map(|kind| (kind.name(), of_kind(*kind))).collect()
    }

    pub fn caught_by(&self) -> BTreeMap<DeviceRule, usize> {
        let mut caught = BTreeMap::new();
        for finding in &self.findings {
            *caught.entry(finding.rule).or_default() += 1;
        }
        caught
    }

    pub fn print(&self) {
        let DeviceEvidence { clients, runs, executions, bounds } = &self.evidence;
        println!(
            "\n{:?}: {} devices, {} runs ({} from executions) in {:.0?}, the last ended {:.0?} after the faults",
            self.mode,
            self.devices,
            runs.len(),
            executions.len(),
            self.wild,
            self.took.saturating_sub(self.wild)
        );
        println!("completed {}, failed {:?}", self.completed_runs(), self.failed_by_reason());
        println!("faults: {:?}", clients.faults);
        println!("seats lost: {:?}", self.lost_by_reason());
        println!("refused: {:?}", self.refused_by_word());
        println!(
            "{} requests, {} unanswered, {} put off; {} acts written down",
            clients.requests,
            clients.unanswered,
            clients.put_off,
            clients.acts.len()
        );
        println!(
            "waits in ms; allowed beyond the settings: {} of the monitor, {} of the machine",
            bounds.monitor, bounds.allowance
        );
        let away: i64 = clients.outages.iter().map(|(from, until)| until - from).sum();
        println!(
            "no process monitored runs, or a single read took longer than 500 ms: {away} ms, not counted"
        );
        for (name, spread) in self.delay_spreads() {
            let DelaySpread { count, median, p99, most, beyond } = spread;
            println!(
                "  {name:14} {count:6} times, median {median:6}, p99 {p99:6}, most {most:6}, {beyond:6} beyond"
            );
        }
        for (rule, count) in self.caught_by() {
            println!("\n{}: {count} violations", rule.name());
            for finding in self.findings.iter().filter(|finding| finding.rule == rule).take(SHOWN) {
                println!("  {}: {}", finding.subject, finding.what);
            }
        }
        let verdict =
            if self.findings.is_empty() { "every run ended, none was had twice" } else { "VIOLATIONS" };
        println!("\nseed {}: {verdict} ({:.0?})", self.seed, self.took);
    }

    pub fn json(&self) -> Value {
        let findings: Vec<Value> = self
            .findings
            .iter()
            .map(|found| json!({ "rule": found.rule.name(), "subject": found.subject, "what": found.what }))
            .collect();
        let spread = |spread: DelaySpread| {
            json!({ "count": spread.count, "median": spread.median, "p99": spread.p99,
                    "most": spread.most, "beyond": spread.beyond })
        };
        let waits: BTreeMap<&str, Value> =
            self.delay_spreads().into_iter().map(|(name, one)| (name, spread(one))).collect();
        json!({
            "seed": self.seed,
            "devices": self.devices,
            "runs": self.evidence.runs.len(),
            "seconds": self.took.as_secs_f64(),
            "completed": self.completed_runs(),
            "failed": self.failed_by_reason(),
            "faults": self.evidence.clients.faults,
            "lost": self.lost_by_reason(),
            "refused": self.refused_by_word(),
            "waits_ms": waits,
            "violations": findings,
        })
    }
}

/// Kind of failure of the seat that made the run fail.
fn failure_reason(run: &RunSeen) -> String {
    let kinds = run.seats.iter().filter_map(|seat| seat.error.as_ref().map(|(kind, _)| kind.as_str()));
    kinds.min_by_key(|kind| *kind == "other_seat").unwrap_or("none").to_owned()
}
