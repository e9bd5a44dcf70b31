//! Results of the device benchmark.

use serde::Serialize;

use crate::calls::CallFigure;
use crate::cost::WorkCost;
use crate::latency::LatencyPercentiles;
use crate::report::FigureSpread;

/// All runs of the bench; the median one in full.
#[derive(Debug, Clone, Serialize)]
pub struct DevicesReport {
    pub devices: usize,
    /// Rate at which runs were created.
    pub per_second: f64,
    pub connections: usize,
    /// Latency of the request that creates a run and assigns a device.
    pub create_p99_ms: FigureSpread,
    /// Accepted, started and completed.
    pub runs_per_second: FigureSpread,
    pub median: DevicesRun,
    pub runs: Vec<DevicesRun>,
}

#[derive(Debug, Clone, Serialize)]
pub struct DevicesRun {
    /// Runs created with a device in the answer, and completed afterwards.
    pub created: usize,
    /// `create`, from its due time; `accept`, `start` and `complete`, from when they were sent.
    pub calls: Vec<CallFigure>,
    /// Delay of creations caused by the generator or by a lack of connections: part of the latency of
    /// `create`.
    pub send_delay: LatencyPercentiles,
    /// Time to accept, start and complete them.
    pub seconds: f64,
    pub runs_per_second: f64,
    /// Answers with status 429 or 503 (backpressure).
    pub pushed_back: usize,
    /// Heartbeats sent meanwhile.
    pub heartbeats: usize,
    /// Per created run.
    pub create_cost: WorkCost,
    /// Per run accepted, started and completed.
    pub drive_cost: WorkCost,
}

impl DevicesReport {
    /// `None` without runs. The median run by the p99 of creation (of an even number, the lower one).
    pub(crate) fn from_runs(
        (devices, per_second, connections): (usize, f64, usize),
        runs: Vec<DevicesRun>,
    ) -> Option<Self> {
        let mut order: Vec<&DevicesRun> = runs.iter().collect();
        order.sort_by(|left, right| left.create_p99_ms().total_cmp(&right.create_p99_ms()));
        let median = (*order.get(order.len().checked_sub(1)? / 2)?).clone();
        Some(Self {
            devices,
            per_second,
            connections,
            create_p99_ms: FigureSpread::from_values(runs.iter().map(DevicesRun::create_p99_ms))?,
            runs_per_second: FigureSpread::from_values(runs.iter().map(|run| run.runs_per_second))?,
            median,
            runs,
        })
    }
}

impl DevicesRun {
    fn create_p99_ms(&self) -> f64 {
        self.calls.iter().find(|figure| figure.call == "create").map_or(0.0, |figure| figure.latency.p99_ms)
    }
}
