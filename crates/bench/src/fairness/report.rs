//! What was found about fairness.

use serde::Serialize;

use crate::latency::Percentiles;

/// All cases.
#[derive(Debug, Clone, Serialize)]
pub struct FairnessReport {
    pub backlog: usize,
    pub cases: Vec<FairnessCase>,
}

/// What waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BacklogKind {
    /// Events, each with an action that does nothing.
    Events,
    /// Events that each lead to an HTTP action; the target answers late.
    Actions,
}

/// Whether the doorbells of the two tenants go through one lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LaneChoice {
    Same,
    Other,
}

/// One backlog, worked off while the quiet tenant sends, and once more without it.
#[derive(Debug, Clone, Serialize)]
pub struct FairnessCase {
    pub kind: BacklogKind,
    pub lane: LaneChoice,
    /// From POST to completed, of the quiet tenant, while nothing else happens.
    pub idle: Percentiles,
    /// The same beside the backlog.
    pub beside: Percentiles,
    /// Events (or actions) of the busy tenant per second, without the quiet tenant.
    pub alone_per_second: f64,
    /// Those of both, with it.
    pub together_per_second: f64,
    /// CPU time, in cores, that went to other programs on this machine while the backlog was worked off.
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
    /// What the backlog adds to 99 of 100 events of the quiet tenant.
    pub(crate) fn added_ms(&self) -> f64 {
        (self.beside.p99_ms - self.idle.p99_ms).max(0.0)
    }

    /// How much the throughput of all changes with the quiet tenant, in parts of one.
    pub(crate) fn change(&self) -> f64 {
        self.together_per_second / self.alone_per_second - 1.0
    }
}
