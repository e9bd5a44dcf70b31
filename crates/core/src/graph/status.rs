//! Where a node stands.

use std::fmt;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum NodeStatus {
    /// It waits for its parents, or for room.
    Pending,
    /// An attempt is under way, or another one is waited for.
    Running,
    Pass,
    /// The task was done and the answer is no.
    Fail,
    /// The task could not be done: what the executor says, or an answer that cannot be used.
    TaskError,
    /// The executor could not be reached.
    InfraError,
    /// No answer within the node's timeout.
    Timeout,
    /// The executor died over it.
    Crash,
    /// A node before it has failed.
    Skipped,
    /// Every way to it is closed by a condition.
    Filtered,
}

impl NodeStatus {
    pub const ALL: &'static [NodeStatus] = &[
        Self::Pending,
        Self::Running,
        Self::Pass,
        Self::Fail,
        Self::TaskError,
        Self::InfraError,
        Self::Timeout,
        Self::Crash,
        Self::Skipped,
        Self::Filtered,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Running => "RUNNING",
            Self::Pass => "PASS",
            Self::Fail => "FAIL",
            Self::TaskError => "TASK_ERROR",
            Self::InfraError => "INFRA_ERROR",
            Self::Timeout => "TIMEOUT",
            Self::Crash => "CRASH",
            Self::Skipped => "SKIPPED",
            Self::Filtered => "FILTERED",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|status| status.as_str() == word)
    }

    /// Nothing more will happen to it.
    pub const fn is_ended(self) -> bool {
        !matches!(self, Self::Pending | Self::Running)
    }

    /// It ran and did not pass.
    pub const fn is_failure(self) -> bool {
        matches!(self, Self::Fail | Self::TaskError | Self::InfraError | Self::Timeout | Self::Crash)
    }
}

impl fmt::Display for NodeStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
