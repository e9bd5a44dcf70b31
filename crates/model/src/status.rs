//! Status enums: closed sets of words.
//!
//! Each word has one spelling, used in JSON and in both databases.

/// A closed set of words as an enum: `ALL`, `as_str`, `parse`, and the same words in JSON.
#[macro_export]
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$vdoc])* $variant,)+ }

        impl $name {
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];

            pub const fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word,)+ }
            }

            pub fn parse(word: &str) -> Option<Self> {
                match word { $($word => Some($name::$variant),)+ _ => None }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

words! {
    /// Status of an accepted event.
    EventStatus {
        /// Not decided yet.
        Pending = "pending",
        /// Deferred to a later state.
        Deferred = "deferred",
        /// Its transition is committed, and some of its actions are not settled.
        Processing = "processing",
        /// Its transition is committed and every action is settled.
        Completed = "completed",
        /// It caused no transition; the reason is recorded.
        Rejected = "rejected",
        /// An action failed permanently without a failure handler; the execution is paused.
        Failed = "failed",
        /// Dead letter: deciding it failed repeatedly, and it is quarantined; the execution is paused.
        Dead = "dead",
    }
}

impl EventStatus {
    /// Whether the status changes only by operator intervention.
    pub const fn is_final(self) -> bool {
        match self {
            Self::Completed | Self::Rejected | Self::Failed | Self::Dead => true,
            Self::Pending | Self::Deferred | Self::Processing => false,
        }
    }

    /// Whether its transition is in the log.
    pub const fn is_applied(self) -> bool {
        match self {
            Self::Processing | Self::Completed | Self::Failed => true,
            Self::Pending | Self::Deferred | Self::Rejected | Self::Dead => false,
        }
    }
}

words! {
    /// Phase of an execution, derived from the log alone.
    ExecutionPhase {
        Active = "active",
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
    }
}

impl ExecutionPhase {
    pub const fn is_ended(self) -> bool {
        match self {
            Self::Active => false,
            Self::Completed | Self::Failed | Self::Cancelled => true,
        }
    }
}

words! {
    /// Public status of an execution: its phase, or paused.
    ExecutionStatus {
        Active = "active",
        Paused = "paused",
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
    }
}

impl ExecutionStatus {
    /// A pause is an operational flag outside of the log: it replaces `active` and no other phase.
    pub const fn of_phase(phase: ExecutionPhase, pause: PauseState) -> Self {
        match (phase, pause) {
            (ExecutionPhase::Active, PauseState::Running) => Self::Active,
            (ExecutionPhase::Active, PauseState::Paused) => Self::Paused,
            (ExecutionPhase::Completed, PauseState::Running | PauseState::Paused) => Self::Completed,
            (ExecutionPhase::Failed, PauseState::Running | PauseState::Paused) => Self::Failed,
            (ExecutionPhase::Cancelled, PauseState::Running | PauseState::Paused) => Self::Cancelled,
        }
    }
}

words! {
    /// Whether the engine decides the mailbox of an execution.
    PauseState {
        Running = "running",
        Paused = "paused",
    }
}

words! {
    /// Status of an action of a committed transition.
    ActionStatus {
        /// Waits for an action that it needs.
        Waiting = "waiting",
        /// May be leased from `next_attempt_at` on.
        Ready = "ready",
        /// A worker holds its lease.
        Leased = "leased",
        /// Started; another component reports the outcome (e.g. a child execution).
        Awaiting = "awaiting",
        /// An undo action whose compensation was not requested.
        Standby = "standby",
        Succeeded = "succeeded",
        /// Failed permanently.
        Failed = "failed",
        /// An action that it needs failed.
        Skipped = "skipped",
        /// Its execution was cancelled before it started.
        Cancelled = "cancelled",
    }
}

impl ActionStatus {
    pub const fn is_settled(self) -> bool {
        match self {
            Self::Waiting | Self::Ready | Self::Leased | Self::Awaiting => false,
            Self::Standby | Self::Succeeded | Self::Failed | Self::Skipped | Self::Cancelled => true,
        }
    }
}

words! {
    /// How an incident was resolved.
    IncidentResolution {
        /// Retry with the same input and the same idempotency key.
        Retry = "retry",
        /// Retry with an edited input and a new idempotency key.
        RetryWithInput = "retry_with_input",
        /// Treated as succeeded, with the given result.
        Skip = "skip",
        /// The execution is failed.
        Fail = "fail",
        /// The execution is cancelled.
        Cancel = "cancel",
        /// Its execution ended in another way.
        Ended = "ended",
    }
}

words! {
    /// Role of an API key; see [`Role::permits`].
    Role {
        Admin = "admin",
        Operator = "operator",
        Submit = "submit",
        Read = "read",
        Worker = "worker",
        Executor = "executor",
        Device = "device",
        Work = "work",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_word_parses_back() {
        for status in EventStatus::ALL {
            assert_eq!(EventStatus::parse(status.as_str()), Some(*status));
        }
        for status in ActionStatus::ALL {
            assert_eq!(ActionStatus::parse(status.as_str()), Some(*status));
        }
    }

    #[test]
    fn pause_replaces_active_only() {
        assert_eq!(
            ExecutionStatus::of_phase(ExecutionPhase::Active, PauseState::Paused),
            ExecutionStatus::Paused
        );
        assert_eq!(
            ExecutionStatus::of_phase(ExecutionPhase::Cancelled, PauseState::Paused),
            ExecutionStatus::Cancelled
        );
    }
}
