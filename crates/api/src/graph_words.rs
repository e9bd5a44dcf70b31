//! The words of graphs: statuses of graphs and nodes, outcomes of attempts.

use crate::words::api_words;

api_words! {
    /// Status of a graph.
    GraphStatus {
        Running = "RUNNING",
        /// Every deciding node is `PASS` or `FILTERED`, and at least one is `PASS`.
        Passed = "PASSED",
        Failed = "FAILED",
        Cancelled = "CANCELLED",
        /// Waits for a decision of an operator.
        Paused = "PAUSED",
    }
}

impl GraphStatus {
    /// Final: the status will not change again.
    pub const fn is_ended(self) -> bool {
        matches!(self, Self::Passed | Self::Failed | Self::Cancelled)
    }
}

api_words! {
    /// Status of a node.
    NodeStatus {
        /// Waits for its parents, or for capacity.
        Pending = "PENDING",
        /// An attempt is under way, or a retry is pending.
        Running = "RUNNING",
        Pass = "PASS",
        /// The task was done, with a negative result.
        Fail = "FAIL",
        /// The task could not be done.
        TaskError = "TASK_ERROR",
        /// The executor was unreachable.
        InfraError = "INFRA_ERROR",
        /// No answer within the node's timeout.
        Timeout = "TIMEOUT",
        /// The executor died while performing it.
        Crash = "CRASH",
        /// An earlier node has failed.
        Skipped = "SKIPPED",
        /// All paths to it are closed by conditions.
        Filtered = "FILTERED",
    }
}

impl NodeStatus {
    /// Final: the status will not change again.
    pub const fn is_ended(self) -> bool {
        !matches!(self, Self::Pending | Self::Running | Self::Unknown)
    }
}

api_words! {
    /// The outcome of an attempt.
    NodeOutcome {
        Pass = "PASS",
        /// The task was done, with a negative result.
        Fail = "FAIL",
        /// The task could not be done.
        TaskError = "TASK_ERROR",
        /// The task could not be done because of its environment.
        InfraError = "INFRA_ERROR",
        /// No answer within the node's timeout.
        Timeout = "TIMEOUT",
        /// The executor died while performing it.
        Crash = "CRASH",
    }
}
