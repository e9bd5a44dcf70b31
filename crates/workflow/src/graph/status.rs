//! The status of a node.

use std::fmt;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum NodeStatus {
    /// Waits for its parents, or for free parallelism.
    Pending,
    /// An attempt is running, or a retry is pending.
    Running,
    Pass,
    /// The task ran and its verdict is negative.
    Fail,
    /// The task could not be performed: an error from the executor, or an invalid answer.
    TaskError,
    /// The executor could not be reached.
    InfraError,
    /// No answer within the node's timeout.
    Timeout,
    /// The executor crashed on it.
    Crash,
    /// A parent has failed.
    Skipped,
    /// All of its edges are closed by conditions.
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

    /// Final.
    pub const fn is_ended(self) -> bool {
        !matches!(self, Self::Pending | Self::Running)
    }

    /// The node ran and did not pass.
    pub const fn is_failure(self) -> bool {
        matches!(self, Self::Fail | Self::TaskError | Self::InfraError | Self::Timeout | Self::Crash)
    }
}

impl fmt::Display for NodeStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
