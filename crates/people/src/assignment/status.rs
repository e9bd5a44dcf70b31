//! Status words of people's work. Each has one spelling, in JSON and in the databases.

use millstream_model::words;

words! {
    /// Status of an assignment.
    AssignmentStatus {
        /// Assigned and not started.
        Pending = "pending",
        /// Started; must be submitted before its deadline.
        InProgress = "in_progress",
        /// Submitted and valid. Final.
        Completed = "completed",
        /// The deadline passed, or the assignment was revoked.
        Expired = "expired",
        /// The person declined it. The item does not return to them.
        Skipped = "skipped",
    }
}

impl AssignmentStatus {
    /// Whether its person can still act on it.
    pub const fn is_open(self) -> bool {
        match self {
            Self::Pending | Self::InProgress => true,
            Self::Completed | Self::Expired | Self::Skipped => false,
        }
    }
}

words! {
    /// Status of an item.
    ItemStatus {
        Open = "open",
        /// Completed by as many persons as its overlap requires.
        Done = "done",
        /// Attempts exhausted, deadline passed, or no eligible person left.
        Failed = "failed",
        /// Withdrawn by an operator or by the waiting execution.
        Withdrawn = "withdrawn",
        /// Would have failed; its queue escalates by an event instead.
        Escalated = "escalated",
    }
}

impl ItemStatus {
    pub const fn is_ended(self) -> bool {
        match self {
            Self::Open => false,
            Self::Done | Self::Failed | Self::Withdrawn | Self::Escalated => true,
        }
    }
}

words! {
    /// Whether a queue, or a person, receives assignments.
    QueueState {
        Active = "active",
        /// No new assignments. Open ones continue.
        Paused = "paused",
    }
}
