//! Crash points: fault injection that kills a process at a chosen place, for durability tests.
//!
//! This module only names the crash points. A role receives one in its options, and its shell kills
//! the process on reaching it; release builds contain no such code.

/// A point between two steps where a crash must lose nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashPoint {
    /// A worker has read doorbells and committed nothing.
    WorkerBeforeCommit,
    /// A worker has committed and not acknowledged.
    WorkerAfterCommit,
    /// A worker has acknowledged and not begun the actions that it leased.
    WorkerBeforeAction,
    /// A worker has performed an action and not settled it.
    WorkerBeforeSettle,
    /// An ingress has committed an event and published no doorbell.
    IngressBeforeRing,
    /// An ingress has committed an event and sent no response.
    IngressBeforeAnswer,
}

impl CrashPoint {
    pub const ALL: &'static [CrashPoint] = &[
        Self::WorkerBeforeCommit,
        Self::WorkerAfterCommit,
        Self::WorkerBeforeAction,
        Self::WorkerBeforeSettle,
        Self::IngressBeforeRing,
        Self::IngressBeforeAnswer,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::WorkerBeforeCommit => "worker.before-commit",
            Self::WorkerAfterCommit => "worker.after-commit",
            Self::WorkerBeforeAction => "worker.before-action",
            Self::WorkerBeforeSettle => "worker.before-settle",
            Self::IngressBeforeRing => "ingress.before-ring",
            Self::IngressBeforeAnswer => "ingress.before-answer",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|point| point.name() == name)
    }
}
