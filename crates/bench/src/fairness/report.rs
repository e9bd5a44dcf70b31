//! Results of the fairness benchmark.

use serde::Serialize;

use crate::latency::LatencyPercentiles;

/// All cases.
#[derive(Debug, Clone, Serialize)]
pub struct FairnessReport {
    pub backlog: usize,
    pub cases: Vec<FairnessCase>,
}

/// Kind of the backlog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BacklogKind {
    /// Events, each with a no-op action.
    Events,
    /// Events that each lead to an HTTP action; the target answers with a delay.
    Actions,
}

/// Whether the doorbells of the two tenants use the same lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LaneChoice {
    Same,
    Other,
}

/// One backlog, processed while the quiet tenant sends, and again without it.
#[derive(Debug, Clone, Serialize)]
pub struct FairnessCase {
    pub kind: BacklogKind,
    pub lane: LaneChoice,
    /// Latency of the quiet tenant from POST to completed, on an idle engine.
    pub idle: LatencyPercentiles,
    /// The same during the backlog.
    pub beside: LatencyPercentiles,
    /// Events (or actions) of the busy tenant per second, without the quiet tenant.
    pub alone_per_second: f64,
    /// Events (or actions) of both per second, with the quiet tenant.
    pub together_per_second: f64,
    /// CPU cores used by other programs on this machine during the backlog.
    pub cores_taken_by_others: Option<f64>,
}

impl BacklogKind {
    pub(crate) const ALL: [Self; 2] = [Self::Events, Self::Actions];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Actions => "actions",
        }
    }
}

impl LaneChoice {
    pub(crate) const ALL: [Self; 2] = [Self::Same, Self::Other];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Other => "other",
        }
    }
}

impl FairnessCase {
    /// Added p99 latency of the quiet tenant's events due to the backlog.
    pub(crate) fn added_ms(&self) -> f64 {
        (self.beside.p99_ms - self.idle.p99_ms).max(0.0)
    }

    /// Relative change of the total throughput caused by the quiet tenant.
    pub(crate) fn throughput_change(&self) -> f64 {
        self.together_per_second / self.alone_per_second - 1.0
    }
}
