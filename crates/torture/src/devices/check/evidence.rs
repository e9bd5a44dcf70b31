//! What is known after the torture, what a violation of it is, and all checks at once.

use std::fmt;

use millstream_core::claim::{Assign, Entry, Previous, Settings, Status};

use super::{ended, history, settled, tokens, unowned};
use crate::devices::record::Written;

/// What a finding is a violation of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// D1: every run is completed, or failed with a reason.
    Ended,
    /// D2: one valid token per seat at any time, and nothing done under another one.
    Tokens,
    /// D3: every log is a way through the table, and the run says what its log says.
    History,
    /// D4: no seat is without an owner for longer than it takes to notice.
    Unowned,
    /// D5: an execution is told once how its run ended.
    Settled,
    /// No process ends by itself, and no request is answered with nonsense.
    Processes,
}

impl Rule {
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
pub struct Finding {
    pub rule: Rule,
    /// The run, execution or process concerned.
    pub subject: String,
    pub what: String,
}

impl Finding {
    pub fn of(rule: Rule, subject: impl fmt::Display, what: impl Into<String>) -> Self {
        Self { rule, subject: subject.to_string(), what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.rule.name(), self.subject, self.what)
    }
}

/// Lengths of time in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// How often the monitor looks.
    pub monitor: i64,
    /// What a busy machine may add.
    pub allowance: i64,
    /// How far the clocks of two processes may be apart.
    pub clock: i64,
    /// How long a write may take: a log has the time at which it was decided.
    pub write: i64,
}

/// Everything that is known.
#[derive(Debug, Clone)]
pub struct Evidence {
    pub clients: Written,
    pub runs: Vec<RunSeen>,
    pub executions: Vec<ExecutionSeen>,
    pub bounds: Bounds,
}

/// A run as the API shows it at the end, with its log.
#[derive(Debug, Clone)]
pub struct RunSeen {
    pub id: String,
    pub status: Status,
    pub assign: Assign,
    pub settings: Settings,
    pub seats: Vec<SeatSeen>,
    /// The execution that waits for it.
    pub execution: Option<String>,
    pub log: Vec<Entry>,
}

#[derive(Debug, Clone)]
pub struct SeatSeen {
    pub status: Status,
    pub device: Option<String>,
    pub token: Option<i64>,
    /// Kind and message, of a seat that failed.
    pub error: Option<(String, String)>,
    pub previous: Vec<Previous>,
}

/// An execution that had a run made.
#[derive(Debug, Clone)]
pub struct ExecutionSeen {
    pub id: String,
    pub status: String,
    /// The names in its history, in order.
    pub names: Vec<String>,
}

/// Every violation that the evidence shows.
pub fn all(evidence: &Evidence) -> Vec<Finding> {
    [
        ended::check(evidence),
        tokens::check(evidence),
        history::check(evidence),
        unowned::check(evidence),
        settled::check(evidence),
    ]
    .concat()
}
