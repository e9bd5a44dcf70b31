//! Evidence of a device torture, violations, and all checks together.

use std::fmt;

use millstream_devices::claim::{FormerHolding, RunAssignMode, RunLogEntry, RunSettings, SeatStatus};

use super::{ended, history, settled, tokens, unowned};
use crate::devices::record::DeviceRecordState;

/// What a finding is a violation of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeviceRule {
    /// D1: every run is completed, or failed with a reason.
    Ended,
    /// D2: one valid token per seat at any time, and no accepted operation under another one.
    Tokens,
    /// D3: every log is a path through the transition table, and the run agrees with its log.
    History,
    /// D4: no seat lacks an owner for longer than the detection time.
    Unowned,
    /// D5: an execution receives the outcome of its run exactly once.
    Settled,
    /// No process ends by itself, and no answer violates the protocol.
    Processes,
}

impl DeviceRule {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ended => "D1 ended",
            Self::Tokens => "D2 tokens",
            Self::History => "D3 history",
            Self::Unowned => "D4 unowned",
            Self::Settled => "D5 settled",
            Self::Processes => "processes",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceFinding {
    pub rule: DeviceRule,
    /// The run, execution or process concerned.
    pub subject: String,
    pub what: String,
}

impl DeviceFinding {
    pub fn new_finding(rule: DeviceRule, subject: impl fmt::Display, what: impl Into<String>) -> Self {
        Self { rule, subject: subject.to_string(), what: what.into() }
    }
}

impl fmt::Display for DeviceFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.rule.name(), self.subject, self.what)
    }
}

/// Durations in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceBounds {
    /// Interval of the monitor.
    pub monitor: i64,
    /// Allowance for a busy machine.
    pub allowance: i64,
    /// Maximum difference between the clocks of two processes.
    pub clock: i64,
    /// Maximum duration of a write: a log contains the time of the decision.
    pub write: i64,
}

/// Everything known after the run.
#[derive(Debug, Clone)]
pub struct DeviceEvidence {
    pub clients: DeviceRecordState,
    pub runs: Vec<RunSeen>,
    pub executions: Vec<ExecutionSeen>,
    pub bounds: DeviceBounds,
}

/// A run as the API shows it at the end, with its log.
#[derive(Debug, Clone)]
pub struct RunSeen {
    pub id: String,
    pub status: SeatStatus,
    pub assign: RunAssignMode,
    pub settings: RunSettings,
    pub seats: Vec<SeatSeen>,
    /// The execution that waits for the run.
    pub execution: Option<String>,
    pub log: Vec<RunLogEntry>,
}

#[derive(Debug, Clone)]
pub struct SeatSeen {
    pub status: SeatStatus,
    pub device: Option<String>,
    pub token: Option<i64>,
    /// Kind and message, of a seat that failed.
    pub error: Option<(String, String)>,
    pub previous: Vec<FormerHolding>,
}

/// An execution that created a run.
#[derive(Debug, Clone)]
pub struct ExecutionSeen {
    pub id: String,
    pub status: String,
    /// The names in its history, in order.
    pub names: Vec<String>,
}

/// Every violation that the evidence shows.
pub fn check_all(evidence: &DeviceEvidence) -> Vec<DeviceFinding> {
    [
        ended::check_ended(evidence),
        tokens::check_tokens(evidence),
        history::check_history(evidence),
        unowned::check_waits(evidence),
        settled::check_settled(evidence),
    ]
    .concat()
}
