//! Results of a bench, as one document.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::batches::BatchStatistics;
use crate::devices::DevicesReport;
use crate::external_workers::TaskCompletion;
use crate::fairness::FairnessReport;
use crate::graph::GraphsReport;
use crate::latency::LatencyPercentiles;
use crate::line::LineReport;
use crate::people::PeopleReport;
use crate::postgres::PostgresFacts;
use crate::rate::LoadRate;
use crate::redis_server::RedisFacts;
use crate::request::SubmitMode;
use crate::sqlite::SqliteFacts;
use crate::usage::RoleUsage;
use crate::workload::Workload;

#[derive(Debug, Clone, Serialize)]
pub struct BenchReport {
    pub version: &'static str,
    pub machine: MachineFacts,
    pub target: String,
    pub submit: SubmitMode,
    pub connections: usize,
    pub complete: TaskCompletion,
    pub postgres: Option<PostgresFacts>,
    pub sqlite: Option<SqliteFacts>,
    pub redis: Option<RedisFacts>,
    pub workloads: Vec<WorkloadReport>,
    /// When both `call` and `task` were run.
    pub task_to_call: Option<TaskToCall>,
    pub latency: Option<LatencyReport>,
    pub pollers: Option<PollersReport>,
    pub graphs: Option<GraphsReport>,
    pub people: Option<PeopleReport>,
    pub line: Option<LineReport>,
    pub devices: Option<DevicesReport>,
    pub fairness: Option<FairnessReport>,
    pub floor_raw: Option<FigureSpread>,
}

#[derive(Debug, Clone, Serialize)]
pub struct MachineFacts {
    pub os: &'static str,
    pub architecture: &'static str,
    pub cores: usize,
    pub cpu: Option<String>,
}

/// All runs of one workload; the median one in full.
#[derive(Debug, Clone, Serialize)]
pub struct WorkloadReport {
    pub workload: Workload,
    pub median: RunReport,
    pub end_to_end_per_second: FigureSpread,
    pub submit_per_second: FigureSpread,
    pub floor: Option<FloorReport>,
    pub runs: Vec<RunReport>,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub struct FigureSpread {
    pub least: f64,
    pub median: f64,
    pub most: f64,
}

#[derive(Debug, Clone, Serialize)]
pub struct RunReport {
    pub events: usize,
    pub executions: usize,
    pub submit_seconds: f64,
    pub submit_per_second: f64,
    pub submit_latency: LatencyPercentiles,
    /// Answers with status 429 or 503 (backpressure).
    pub pushed_back: usize,
    pub end_to_end_seconds: f64,
    pub end_to_end_per_second: f64,
    pub roles: Vec<RoleUsage>,
    /// Of all roles but the generator.
    pub cpu_micros_per_event: f64,
    /// CPU cores used by other programs: neither the engine, nor its services, nor the generator.
    pub cores_taken_by_others: Option<f64>,
    pub database_bytes_per_event: Option<f64>,
    pub redis_used_memory_before: Option<u64>,
    pub redis_used_memory_after: Option<u64>,
    pub redis_bytes_per_event: Option<f64>,
    pub batches: BTreeMap<String, BatchStatistics>,
    pub history: Option<HistoryReport>,
    pub course: Vec<CoursePoint>,
}

/// Cost of an event after a long history.
#[derive(Debug, Clone, Serialize)]
pub struct HistoryReport {
    /// Length of the history.
    pub events: usize,
    /// POST to applied: the first event of new executions.
    pub first: LatencyPercentiles,
    /// POST to applied: the next events of the old one.
    pub next: LatencyPercentiles,
    /// Ratio of the medians.
    pub ratio: f64,
}

/// Floor: throughput of the store alone with the same rows.
#[derive(Debug, Clone, Serialize)]
pub struct FloorReport {
    pub per_second: FigureSpread,
    /// Rows per transaction, equal to the engine's.
    pub append_batch: usize,
    pub commit_batch: usize,
    pub settle_batch: usize,
    /// Concurrent transactions.
    pub append_hands: usize,
    pub commit_hands: usize,
    pub settle_hands: usize,
    /// End-to-end throughput of the engine divided by the floor's: medians.
    pub end_to_end_ratio: f64,
}

/// Ratio of a task of an external worker to the same work as a function in Rust: runs of the same round.
#[derive(Debug, Clone, Serialize)]
pub struct TaskToCall {
    /// CPU per event, all roles but the generator.
    pub cost: FigureSpread,
    /// CPU per event minus that of an event without an action; when `plain` was run too.
    pub cost_of_action: Option<FigureSpread>,
    /// Events per second, end to end.
    pub throughput: FigureSpread,
}

/// External workers that wait for tasks.
#[derive(Debug, Clone, Serialize)]
pub struct PollersReport {
    pub workers: usize,
    /// Memory in bytes of the process with the ingress: before the workers, while they waited, and at the
    /// peak.
    pub ingress_rss_before: Option<u64>,
    pub ingress_rss_idle: Option<u64>,
    pub ingress_rss_peak: Option<u64>,
    /// CPU by role while all workers waited.
    pub idle_cores: BTreeMap<String, f64>,
    /// As of a throughput run.
    pub cores_taken_by_others: Option<f64>,
    /// From the answer to an event until a worker has its task; events one at a time.
    pub single: LatencyPercentiles,
    pub burst: BurstReport,
}

/// Bursts: as many events in one request as there are workers.
#[derive(Debug, Clone, Serialize)]
pub struct BurstReport {
    pub size: usize,
    pub bursts: usize,
    pub wake: LatencyPercentiles,
}

/// Latencies at set rates.
#[derive(Debug, Clone, Serialize)]
pub struct LatencyReport {
    /// End-to-end capacity for single POSTs; measured when a rate is a fraction of it.
    pub capacity_per_second: Option<f64>,
    /// As of a throughput run.
    pub cores_taken_by_others: Option<f64>,
    pub figures: Vec<LatencyFigure>,
}

#[derive(Debug, Clone, Serialize)]
pub struct LatencyFigure {
    pub rate: LoadRate,
    pub per_second: f64,
    pub stage: EventStage,
    /// From the due time of a request.
    pub latency: LatencyPercentiles,
    /// Send delay caused by the generator: part of `latency`.
    pub send_delay: LatencyPercentiles,
}

/// Stages of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EventStage {
    /// 202: durable.
    Accepted,
    /// Its transition is committed and the caller is notified.
    Applied,
    /// Its HTTP action has reached its target.
    ActionStarted,
    /// Its action is settled and the caller is notified.
    Completed,
}

impl EventStage {
    pub const ALL: [Self; 4] = [Self::Accepted, Self::Applied, Self::ActionStarted, Self::Completed];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Applied => "applied",
            Self::ActionStarted => "action_started",
            Self::Completed => "completed",
        }
    }
}

/// Progress at a moment of the run.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct CoursePoint {
    pub seconds: f64,
    pub accepted: Option<usize>,
    pub decided: Option<u64>,
}

impl MachineFacts {
    pub(crate) fn read_facts() -> Self {
        let cpu = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("model name"))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        });
        Self {
            os: std::env::consts::OS,
            architecture: std::env::consts::ARCH,
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            cpu,
        }
    }
}

impl WorkloadReport {
    /// The median run by end-to-end throughput (of an even number, the lower one).
    pub(crate) fn from_runs(workload: Workload, runs: Vec<RunReport>) -> Option<Self> {
        let mut order: Vec<&RunReport> = runs.iter().collect();
        order.sort_by(|left, right| left.end_to_end_per_second.total_cmp(&right.end_to_end_per_second));
        let median = (*order.get(order.len().checked_sub(1)? / 2)?).clone();
        let end_to_end_per_second =
            FigureSpread::from_values(runs.iter().map(|run| run.end_to_end_per_second))?;
        let submit_per_second = FigureSpread::from_values(runs.iter().map(|run| run.submit_per_second))?;
        Some(Self { workload, median, end_to_end_per_second, submit_per_second, floor: None, runs })
    }
}

impl TaskToCall {
    /// `None` unless both were run.
    pub(crate) fn from_workloads(workloads: &[WorkloadReport]) -> Option<Self> {
        let runs = |wanted: Workload| {
            workloads.iter().find(|one| one.workload == wanted).map(|one| one.runs.as_slice())
        };
        let (calls, tasks) = (runs(Workload::Call)?, runs(Workload::Task)?);
        let ratio = |of: fn(&RunReport) -> f64| {
            FigureSpread::from_values(tasks.iter().zip(calls).map(|(task, call)| of(task) / of(call)))
        };
        let above = |plain: &[RunReport]| {
            let rounds = tasks.iter().zip(calls).zip(plain);
            FigureSpread::from_values(rounds.map(|((task, call), plain)| {
                let plain = plain.cpu_micros_per_event;
                (task.cpu_micros_per_event - plain) / (call.cpu_micros_per_event - plain)
            }))
        };
        Some(Self {
            cost: ratio(|run| run.cpu_micros_per_event)?,
            cost_of_action: runs(Workload::Plain).and_then(above),
            throughput: ratio(|run| run.end_to_end_per_second)?,
        })
    }
}

impl FigureSpread {
    /// `None` without values. Of an even number the median is the lower of the two in the middle, so that it
    /// is a measured value.
    pub(crate) fn from_values(values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        Some(Self { least, median: values[(values.len() - 1) / 2], most })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_a_measured_value() {
        let of = |values: &[f64]| {
            FigureSpread::from_values(values.iter().copied())
                .map(|spread| (spread.least, spread.median, spread.most))
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[3.0]), Some((3.0, 3.0, 3.0)));
        assert_eq!(of(&[5.0, 1.0, 3.0]), Some((1.0, 3.0, 5.0)));
        assert_eq!(of(&[4.0, 1.0, 3.0, 2.0]), Some((1.0, 2.0, 4.0)));
    }
}
