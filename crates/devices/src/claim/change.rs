//! The change that a step yields, and its log entries.

use std::collections::BTreeSet;

use millstream_model::id::DeviceId;
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::input_kind::RunInputKind;
use super::run::RunRecord;
use super::run_outcome::RunOutcome;
use super::seat::{SeatLossReason, SeatToken};
use super::status::SeatStatus;

#[derive(Debug, Clone, PartialEq)]
pub enum RunStepOutcome {
    Changed(Box<RunChange>),
    /// A repetition by the same device with the same token: succeeds, writes nothing.
    Already,
}

/// Committed atomically.
#[derive(Debug, Clone, PartialEq)]
pub struct RunChange {
    /// The run after the step.
    pub run: RunRecord,
    /// Log entries, in order. Heartbeats are not logged.
    pub log: Vec<RunLogEntry>,
    /// The outcome for the waiting execution, once the run has ended.
    pub told: Option<RunOutcome>,
    /// Precondition (optimistic concurrency): no heartbeat from the holders of these seats since these times.
    pub unheard: Vec<(u16, Timestamp)>,
}

impl RunChange {
    /// Devices whose assignments have changed.
    pub fn affected_devices(&self) -> BTreeSet<&DeviceId> {
        self.log.iter().filter_map(|entry| entry.device.as_ref()).collect()
    }

    /// Appends another step, to be committed together with this one.
    #[must_use]
    pub fn merge_next(mut self, next: RunStepOutcome) -> Self {
        if let RunStepOutcome::Changed(next) = next {
            self.log.extend(next.log);
            self.run = next.run;
            self.told = next.told.or(self.told);
            self.unheard.extend(next.unheard);
        }
        self
    }
}

/// A log entry of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLogEntry {
    pub at: Timestamp,
    /// `None`: the entry concerns the run as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seat: Option<u16>,
    pub word: RunInputKind,
    /// `None` at creation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<SeatStatus>,
    pub to: SeatStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<SeatToken>,
    /// The reason for which an assignment ended with this entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<SeatLossReason>,
    /// Free text from the device or the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The actor, if it is not the device itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The decision behind an assignment, or the progress at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<RawJson>,
}
