//! What is known after a run, what a violation of it is, and all checks at once.

use std::fmt;
use std::time::Instant;

use super::{accepted, effects, keys, log, timers};
use crate::history::History;
use crate::load::record::Written;
use crate::sink::Book;

/// What a violation is a violation of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
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
    /// C7: nothing is left over.
    Quiet,
    /// C8: nothing twice under one key.
    Keys,
    /// A lock is left alone by those who do not hold it.
    Locks,
    /// A rolling restart fails nobody.
    Rolling,
    /// Wrong surroundings are refused.
    Startup,
    /// No process dies by itself.
    Processes,
    /// What was broken is repaired in time.
    Recovery,
}

impl Check {
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
pub struct Violation {
    pub check: Check,
    /// The execution, event, action or process concerned.
    pub subject: String,
    pub what: String,
}

impl Violation {
    pub fn of(check: Check, subject: impl fmt::Display, what: impl Into<String>) -> Self {
        Self { check, subject: subject.to_string(), what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.check.name(), self.subject, self.what)
    }
}

/// Everything that is known after a run.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    pub clients: Written,
    pub history: History,
    pub target: Book,
    /// When a worker stood still or the network to the target was bad: calls may be late then.
    pub stops: Vec<(Instant, Instant)>,
    /// Whether poison kills in this build.
    pub poison: bool,
    /// How far a worker's clock may have been off, in milliseconds.
    pub clock_slack: i64,
}

/// Every violation that the evidence shows.
pub fn all(evidence: &Evidence) -> Vec<Violation> {
    [
        accepted::check(evidence),
        log::once(evidence),
        log::order(evidence),
        effects::check(evidence),
        timers::check(evidence),
        keys::check(evidence),
    ]
    .concat()
}
