//! What to measure: the command line's wishes, checked.

use std::path::PathBuf;
use std::time::Duration;

use crate::error::{BenchError, Result};
use crate::request::Submit;
use crate::workload::Workload;

/// A whole `millstream bench`.
#[derive(Debug, Clone)]
pub struct Plan {
    pub target: Target,
    /// This very program: engines are started from it.
    pub binary: PathBuf,
    /// Settings for engines that are started, as environment variables.
    pub settings: Vec<(String, String)>,
    pub workloads: Vec<Workload>,
    pub submit: Submit,
    pub connections: usize,
    /// `None`: the workload's own size.
    pub amount: Option<Amount>,
    pub runs: usize,
    /// Events before the measured ones, discarded.
    pub warmup: usize,
    pub size: Size,
}

/// Against what.
#[derive(Debug, Clone)]
pub enum Target {
    /// An ingress that is running.
    Url { url: String, key: String },
    /// `millstream dev`, started in a directory of its own.
    Embedded { workers: usize },
    /// An ingress and so many workers, started on a private database.
    Fleet { workers: usize, database_url: String, redis_url: String },
}

/// When the measured part ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    Events(usize),
    For(Duration),
}

/// Figures, or only the proof that it works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    Full,
    Smoke,
}

impl Plan {
    pub fn check(&self) -> Result<()> {
        let usage = |text: &str| Err(BenchError::Usage(text.to_owned()));
        if self.runs == 0 {
            return usage("--runs: at least one run is needed");
        }
        if self.connections == 0 || self.connections > 4096 {
            return usage("--connections: between 1 and 4096");
        }
        if let Submit::Ndjson { batch: 0 | 1001.. } = self.submit {
            return usage("--batch: between 1 and 1000, what the ingress takes in one request");
        }
        match self.amount {
            Some(Amount::Events(0)) => usage("--events: at least one event is needed"),
            Some(Amount::For(Duration::ZERO)) => usage("--for: more than no time is needed"),
            Some(Amount::Events(_) | Amount::For(_)) | None => Ok(()),
        }
    }

    /// How many events a workload gets; with `--for`, how many executions are made ready.
    pub(crate) fn events(&self, workload: Workload) -> usize {
        match (self.amount, self.size) {
            (Some(Amount::Events(events)), _) => events,
            (Some(Amount::For(_)) | None, Size::Full) => workload.full_size(),
            (Some(Amount::For(_)) | None, Size::Smoke) => workload.smoke_size(),
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
}
