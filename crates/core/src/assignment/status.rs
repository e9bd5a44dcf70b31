//! The closed sets of words of people's work. Each has one spelling, in JSON and in the databases.

use crate::status::words;

words! {
    /// Where an assignment stands.
    AssignmentStatus {
        /// Given to somebody who has not started.
        Pending = "pending",
        /// Somebody works on it, until its deadline.
        InProgress = "in_progress",
        /// Handed in and valid. Never changes again.
        Completed = "completed",
        /// Its time was over, or it was taken back.
        Expired = "expired",
        /// Its person did not want it. It does not come back to them.
        Skipped = "skipped",
    }
}

impl AssignmentStatus {
    /// Its person can still act on it.
    pub const fn is_open(self) -> bool {
        match self {
            Self::Pending | Self::InProgress => true,
            Self::Completed | Self::Expired | Self::Skipped => false,
        }
    }
}

words! {
    /// Where an item stands.
    ItemStatus {
        Open = "open",
        /// As many people as it needs have completed it.
        Done = "done",
        /// Too many attempts, too late, or nobody is left who may.
        Failed = "failed",
        /// An operator, or the execution that wanted it, took it back.
        Withdrawn = "withdrawn",
        /// It would have failed, and its queue says that somebody is to be told instead.
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
    /// Whether a queue, or a person, is given work.
    QueueState {
        Active = "active",
        /// Nothing is handed out. What is open goes on.
        Paused = "paused",
    }
}
