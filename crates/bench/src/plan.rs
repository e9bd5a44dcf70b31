//! What to measure: the validated command line.

use std::path::PathBuf;
use std::time::Duration;

use crate::crew::Complete;
use crate::devices::Devices;
use crate::error::{BenchError, Result};
use crate::fairness::Fairness;
use crate::graph::Graphs;
use crate::line::Line;
use crate::people::People;
use crate::progress::Progress;
use crate::rate::Rate;
use crate::request::Submit;
use crate::workload::Workload;

/// A whole `millstream bench`.
#[derive(Debug, Clone)]
pub struct Plan {
    pub target: Target,
    /// Path of this program: engines are started from it.
    pub binary: PathBuf,
    /// Settings for engines that are started, as environment variables.
    pub settings: Vec<(String, String)>,
    pub measures: Vec<Measure>,
    /// Graphs to measure, in addition to or instead of the measures.
    pub graphs: Option<Graphs>,
    /// The same for people who process a queue,
    pub people: Option<People>,
    /// people who ask while a long line waits,
    pub line: Option<Line>,
    /// and devices with runs.
    pub devices: Option<Devices>,
    /// A tenant beside another tenant with a backlog.
    pub fairness: Option<Fairness>,
    pub workloads: Vec<Workload>,
    pub submit: Submit,
    pub connections: usize,
    /// How external workers report tasks as completed.
    pub complete: Complete,
    /// `None`: the default size of the workload.
    pub amount: Option<Amount>,
    pub runs: usize,
    /// External workers that wait for tasks.
    pub pollers: usize,
    /// Events before the measured ones, discarded.
    pub warmup: usize,
    /// Rates at which latency is measured.
    pub rates: Vec<Rate>,
    /// Delay of the sink's answers to HTTP actions.
    pub action_wait: Duration,
    pub size: Size,
    pub progress: Progress,
}

/// The engine to measure.
#[derive(Debug, Clone)]
pub enum Target {
    /// An ingress that is running.
    Url { url: String, key: String },
    /// `millstream dev`, started in a directory of its own.
    Embedded { workers: usize },
    /// An ingress and `workers` workers, started on a private database.
    Fleet { workers: usize, database_url: String, redis_url: String },
}

/// Kinds of figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
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
pub enum Amount {
    Events(usize),
    For(Duration),
}

/// Full measurements, or only a smoke test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    Full,
    Smoke,
}

impl Plan {
    pub fn check(&self) -> Result<()> {
        let usage = |text: &str| Err(BenchError::Usage(text.to_owned()));
        if !(1..=100).contains(&self.runs) {
            return usage("--runs: between 1 and 100");
        }
        if !(1..=4096).contains(&self.connections) {
            return usage("--connections: between 1 and 4096");
        }
        if let Submit::Ndjson { batch: 0 | 1001.. } = self.submit {
            return usage("--batch: between 1 and 1000, what the ingress takes in one request");
        }
        match self.amount {
            Some(Amount::Events(0 | 50_000_001..)) => return usage("--events: between 1 and 50,000,000"),
            Some(Amount::For(Duration::ZERO)) => return usage("--for: more than no time is needed"),
            Some(Amount::Events(_) | Amount::For(_)) | None => {}
        }
        if self.measures.is_empty() && !self.has_work() {
            return usage("--measure: throughput, latency, floor or pollers");
        }
        if !(1..=1000).contains(&self.pollers) {
            return usage("--pollers: between 1 and 1000, the events of a burst are one request");
        }
        self.graphs.as_ref().map_or(Ok(()), Graphs::check)?;
        self.people.as_ref().map_or(Ok(()), People::check)?;
        self.line.as_ref().map_or(Ok(()), |line| line.check(&self.target))?;
        self.devices.as_ref().map_or(Ok(()), Devices::check)?;
        self.fairness.as_ref().map_or(Ok(()), |fairness| fairness.check(&self.target))?;
        if matches!(self.target, Target::Url { .. }) {
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
            if self.wants(Measure::Floor) || self.wants(Measure::FloorRaw) {
                return usage("the floor is measured on services of its own: --embedded or --fleet N");
            }
        }
        if self.wants(Measure::FloorRaw) && !matches!(self.target, Target::Fleet { .. }) {
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

    pub(crate) fn wants(&self, measure: Measure) -> bool {
        self.measures.contains(&measure)
    }

    /// Number of events of a workload; with `--for`, the number of executions to prepare.
    pub(crate) fn events(&self, workload: Workload) -> usize {
        match (self.amount, self.size) {
            (Some(Amount::Events(events)), _) => events,
            (Some(Amount::For(_)) | None, Size::Full) => workload.full_size(),
            (Some(Amount::For(_)) | None, Size::Smoke) => workload.smoke_size(),
        }
    }

    /// Condition that ends the measured part of a workload. A backlog and a history have a size, not a
    /// duration.
    pub(crate) fn amount(&self, workload: Workload) -> Amount {
        match (self.amount, workload) {
            (Some(Amount::For(_)), Workload::Backlog | Workload::History) | (None, _) => {
                Amount::Events(self.events(workload))
            }
            (Some(amount), _) => amount,
        }
    }
}

impl Target {
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Url { url, .. } => url.clone(),
            Self::Embedded { workers } => format!("embedded, {workers} worker loops"),
            Self::Fleet { workers: 1, .. } => "fleet of 1 worker".to_owned(),
            Self::Fleet { workers, .. } => format!("fleet of {workers} workers"),
        }
    }

    pub(crate) const fn workers(&self) -> usize {
        match self {
            Self::Url { .. } => 0,
            Self::Embedded { workers } | Self::Fleet { workers, .. } => *workers,
        }
    }
}
