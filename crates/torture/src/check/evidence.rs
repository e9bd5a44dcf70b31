//! Evidence of a run, violations, and all checks together.

use std::fmt;
use std::time::Instant;

use super::{accepted, effects, keys, log, timers};
use crate::history::TortureHistory;
use crate::load::record::PostRecordState;
use crate::sink::TortureSinkBook;

/// The guarantee that was violated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TortureCheck {
    /// C1: every acknowledged event ends in one final status.
    Accepted,
    /// C2: applied exactly once, without gaps.
    Once,
    /// C3: in the order in which one client posted them.
    Order,
    /// C4: replaying the log gives what is stored.
    Replay,
    /// C5: one outcome and one effect per action.
    Effects,
    /// C6: timers fire once, not early, and are not lost.
    Timers,
    /// C7: no unfinished work.
    Quiet,
    /// C8: at most one event per key.
    Keys,
    /// A process does not change a lock that it does not hold.
    Locks,
    /// During a rolling restart no request fails.
    Rolling,
    /// A worker refuses an unsuitable environment.
    Startup,
    /// No process dies by itself.
    Processes,
    /// Recovery from a fault is fast enough.
    Recovery,
}

impl TortureCheck {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Accepted => "C1 accepted",
            Self::Once => "C2 once",
            Self::Order => "C3 order",
            Self::Replay => "C4 replay",
            Self::Effects => "C5 effects",
            Self::Timers => "C6 timers",
            Self::Quiet => "C7 quiet",
            Self::Keys => "C8 keys",
            Self::Locks => "locks",
            Self::Rolling => "rolling restart",
            Self::Startup => "startup",
            Self::Processes => "processes",
            Self::Recovery => "recovery",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TortureViolation {
    pub check: TortureCheck,
    /// The execution, event, action or process concerned.
    pub subject: String,
    pub what: String,
}

impl TortureViolation {
    pub fn new_violation(check: TortureCheck, subject: impl fmt::Display, what: impl Into<String>) -> Self {
        Self { check, subject: subject.to_string(), what: what.into() }
    }
}

impl fmt::Display for TortureViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.check.name(), self.subject, self.what)
    }
}

/// Everything known after a run.
#[derive(Debug, Clone, Default)]
pub struct TortureEvidence {
    pub clients: PostRecordState,
    pub history: TortureHistory,
    pub target: TortureSinkBook,
    /// Periods in which a worker was stopped or the network to the target was bad: calls may be late then.
    pub stops: Vec<(Instant, Instant)>,
    /// Whether poison kills in this build.
    pub poison: bool,
    /// Maximum offset of a worker's clock, in milliseconds.
    pub clock_slack: i64,
}

/// Every violation that the evidence shows.
pub fn check_all(evidence: &TortureEvidence) -> Vec<TortureViolation> {
    [
        accepted::check_accepted(evidence),
        log::check_applied_once(evidence),
        log::check_order(evidence),
        effects::check_effects(evidence),
        timers::check_timers(evidence),
        keys::check_keys(evidence),
    ]
    .concat()
}
