//! What was found about devices.

use serde::Serialize;

use crate::calls::CallFigure;
use crate::cost::Cost;
use crate::latency::Percentiles;
use crate::report::Spread;

/// All runs of the bench; the median one is spelt out.
#[derive(Debug, Clone, Serialize)]
pub struct DevicesReport {
    pub devices: usize,
    /// At which runs were created.
    pub per_second: f64,
    pub connections: usize,
    /// Of the request that creates a run and gives it to a device.
    pub create_p99_ms: Spread,
    /// Accepted, started and completed.
    pub runs_per_second: Spread,
    pub median: DevicesRun,
    pub runs: Vec<DevicesRun>,
}

#[derive(Debug, Clone, Serialize)]
pub struct DevicesRun {
    /// Runs that were created, each with its device in the answer, and afterwards completed.
    pub created: usize,
    /// `create`, from when it was due; `accept`, `start` and `complete`, from when they were sent.
    pub calls: Vec<CallFigure>,
    /// How late creations were sent, because of us or for want of a connection: part of the latency of `create`.
    pub send_delay: Percentiles,
    /// Of accepting, starting and completing them.
    pub seconds: f64,
    pub runs_per_second: f64,
    /// Answers of 429 and 503.
    pub pushed_back: usize,
    /// Devices that were heard of meanwhile.
    pub heartbeats: usize,
    /// Of creating a run.
    pub create_cost: Cost,
    /// Of accepting, starting and completing one.
    pub drive_cost: Cost,
}

impl DevicesReport {
    /// `None` of no runs. The run in the middle by the p99 of creation (of an even number, the lower one).
    pub(crate) fn of(
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
            create_p99_ms: Spread::of(runs.iter().map(DevicesRun::create_p99_ms))?,
            runs_per_second: Spread::of(runs.iter().map(|run| run.runs_per_second))?,
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
