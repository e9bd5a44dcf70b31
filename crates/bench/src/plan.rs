//! What to measure: the validated command line.

use std::path::PathBuf;
use std::time::Duration;

use crate::devices::DeviceBench;
use crate::error::{BenchError, BenchResult};
use crate::external_workers::TaskCompletion;
use crate::fairness::FairnessBench;
use crate::graph::GraphBench;
use crate::line::LineBench;
use crate::people::PeopleBench;
use crate::progress::BenchProgress;
use crate::rate::LoadRate;
use crate::request::SubmitMode;
use crate::workload::Workload;

/// A whole `millstream bench`.
#[derive(Debug, Clone)]
pub struct BenchPlan {
    pub target: BenchTarget,
    /// Path of this program: engines are started from it.
    pub binary: PathBuf,
    /// Settings for engines that are started, as environment variables.
    pub settings: Vec<(String, String)>,
    pub measures: Vec<BenchMeasure>,
    /// Graphs to measure, in addition to or instead of the measures.
    pub graphs: Option<GraphBench>,
    /// The same for people who process a queue,
    pub people: Option<PeopleBench>,
    /// people who ask while a long line waits,
    pub line: Option<LineBench>,
    /// and devices with runs.
    pub devices: Option<DeviceBench>,
    /// A tenant beside another tenant with a backlog.
    pub fairness: Option<FairnessBench>,
    pub workloads: Vec<Workload>,
    pub submit: SubmitMode,
    pub connections: usize,
    /// How external workers report tasks as completed.
    pub complete: TaskCompletion,
    /// `None`: the default size of the workload.
    pub amount: Option<LoadAmount>,
    pub runs: usize,
    /// External workers that wait for tasks.
    pub pollers: usize,
    /// Events before the measured ones, discarded.
    pub warmup: usize,
    /// Rates at which latency is measured.
    pub rates: Vec<LoadRate>,
    /// Delay of the sink's answers to HTTP actions.
    pub action_wait: Duration,
    pub size: BenchSize,
    pub progress: BenchProgress,
}

/// The engine to measure.
#[derive(Debug, Clone)]
pub enum BenchTarget {
    /// An ingress that is running.
    Url { url: String, key: String },
    /// `millstream dev`, started in a directory of its own.
    Embedded { workers: usize },
    /// An ingress and `workers` workers, started on a private database.
    Fleet { workers: usize, database_url: String, redis_url: String },
}

/// Kinds of figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BenchMeasure {
    /// Each workload at full speed.
    Throughput,
    /// Latency from POST to each stage, at set rates.
    Latency,
    /// The same statements straight at the store.
    Floor,
    /// The minimum cost of three tables, as a reference.
    FloorRaw,
    /// Cost of waiting workers, and latency of their tasks.
    Pollers,
}

/// When the measured part ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadAmount {
    Events(usize),
    For(Duration),
}

/// Full measurements, or only a smoke test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BenchSize {
    Full,
    Smoke,
}

impl BenchPlan {
    pub fn validate_plan(&self) -> BenchResult<()> {
        let usage = |text: &str| Err(BenchError::Usage(text.to_owned()));
        if !(1..=100).contains(&self.runs) {
            return usage("--runs: between 1 and 100");
        }
        if !(1..=4096).contains(&self.connections) {
            return usage("--connections: between 1 and 4096");
        }
        if let SubmitMode::Ndjson { batch: 0 | 1001.. } = self.submit {
            return usage("--batch: between 1 and 1000, what the ingress takes in one request");
        }
        match self.amount {
            Some(LoadAmount::Events(0 | 50_000_001..)) => return usage("--events: between 1 and 50,000,000"),
            Some(LoadAmount::For(Duration::ZERO)) => return usage("--for: more than no time is needed"),
            Some(LoadAmount::Events(_) | LoadAmount::For(_)) | None => {}
        }
        if self.measures.is_empty() && !self.has_work() {
            return usage("--measure: throughput, latency, floor or pollers");
        }
        if !(1..=1000).contains(&self.pollers) {
            return usage("--pollers: between 1 and 1000, the events of a burst are one request");
        }
        self.graphs.as_ref().map_or(Ok(()), GraphBench::validate_plan)?;
        self.people.as_ref().map_or(Ok(()), PeopleBench::validate_plan)?;
        self.line.as_ref().map_or(Ok(()), |line| line.validate_plan(&self.target))?;
        self.devices.as_ref().map_or(Ok(()), DeviceBench::validate_plan)?;
        self.fairness.as_ref().map_or(Ok(()), |fairness| fairness.validate_plan(&self.target))?;
        if matches!(self.target, BenchTarget::Url { .. }) {
            if self.workloads.contains(&Workload::Call) {
                return usage(
                    "the workload call needs workers with a function of its own: --embedded or --fleet N",
                );
            }
            if self.workloads.contains(&Workload::Backlog) {
                return usage(
                    "the workload backlog starts the workers late, so it needs an engine of its own: --embedded or --fleet N",
                );
            }
            if self.includes_measure(BenchMeasure::Floor) || self.includes_measure(BenchMeasure::FloorRaw) {
                return usage("the floor is measured on services of its own: --embedded or --fleet N");
            }
        }
        if self.includes_measure(BenchMeasure::FloorRaw) && !matches!(self.target, BenchTarget::Fleet { .. })
        {
            return usage("--floor-raw is about PostgreSQL: it needs --fleet N");
        }
        Ok(())
    }

    const fn has_work(&self) -> bool {
        self.graphs.is_some()
            || self.people.is_some()
            || self.line.is_some()
            || self.devices.is_some()
            || self.fairness.is_some()
    }

    pub(crate) fn includes_measure(&self, measure: BenchMeasure) -> bool {
        self.measures.contains(&measure)
    }

    /// Number of events of a workload; with `--for`, the number of executions to prepare.
    pub(crate) fn workload_events(&self, workload: Workload) -> usize {
        match (self.amount, self.size) {
            (Some(LoadAmount::Events(events)), _) => events,
            (Some(LoadAmount::For(_)) | None, BenchSize::Full) => workload.full_size(),
            (Some(LoadAmount::For(_)) | None, BenchSize::Smoke) => workload.smoke_size(),
        }
    }

    /// Condition that ends the measured part of a workload. A backlog and a history have a size, not a
    /// duration.
    pub(crate) fn workload_amount(&self, workload: Workload) -> LoadAmount {
        match (self.amount, workload) {
            (Some(LoadAmount::For(_)), Workload::Backlog | Workload::History) | (None, _) => {
                LoadAmount::Events(self.workload_events(workload))
            }
            (Some(amount), _) => amount,
        }
    }
}

impl BenchTarget {
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Url { url, .. } => url.clone(),
            Self::Embedded { workers } => format!("embedded, {workers} worker loops"),
            Self::Fleet { workers: 1, .. } => "fleet of 1 worker".to_owned(),
            Self::Fleet { workers, .. } => format!("fleet of {workers} workers"),
        }
    }

    pub(crate) const fn worker_count(&self) -> usize {
        match self {
            Self::Url { .. } => 0,
            Self::Embedded { workers } | Self::Fleet { workers, .. } => *workers,
        }
    }
}
