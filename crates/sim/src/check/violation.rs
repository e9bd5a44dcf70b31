//! A violated guarantee.

use std::fmt;

use millstream_model::id::TenantId;

/// The guarantees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SimCheck {
    /// Every acknowledged event ends in one final status.
    C1,
    /// Applied exactly once, under seqs without gaps.
    C2,
    /// Posts made one after the other are applied in that order.
    C3,
    /// Replaying the log gives what is stored.
    C4,
    /// One recorded outcome and one effect per action, none under an old token.
    C5,
    /// No timer fires twice, early, or for a state that was left; none is lost.
    C6,
    /// Nothing is left undecided, leased, locked or pending.
    C7,
    /// Nothing exists twice, and no refused post exists.
    C8,
    /// One child per action that starts one, whose end is its outcome; none is left behind.
    C9,
    /// A graph ends, no node begins before its parents have ended, and a passed node has passed once.
    C10,
    /// An event is decided within a bounded time after the last fault, whatever the backlog of another
    /// tenant.
    C11,
    /// Only the holder of a lock releases or extends it.
    Lock,
    /// Only the newest lease renews, records, settles and releases.
    Lease,
}

impl SimCheck {
    pub const fn name(self) -> &'static str {
        match self {
            Self::C1 => "C1 acknowledged",
            Self::C2 => "C2 exactly once",
            Self::C3 => "C3 order",
            Self::C4 => "C4 replay",
            Self::C5 => "C5 actions",
            Self::C6 => "C6 timers",
            Self::C7 => "C7 quiet",
            Self::C8 => "C8 never twice",
            Self::C9 => "C9 families",
            Self::C10 => "C10 graphs",
            Self::C11 => "C11 waiting",
            Self::Lock => "lock",
            Self::Lease => "lease",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimViolation {
    pub check: SimCheck,
    /// The execution concerned; empty if there is no specific one.
    pub execution: String,
    pub what: String,
}

impl SimViolation {
    pub fn new(check: SimCheck, execution: &str, what: impl Into<String>) -> Self {
        Self { check, execution: execution.to_owned(), what: what.into() }
    }

    /// Adds the tenant, unless it is the one that every run has.
    #[must_use]
    pub(crate) fn of_tenant(self, tenant: &str) -> Self {
        let quiet = tenant.is_empty() || tenant == TenantId::default_tenant().as_str();
        if quiet { self } else { Self { what: format!("{} (of the tenant {tenant})", self.what), ..self } }
    }
}

impl fmt::Display for SimViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {} {}", self.check.name(), self.execution, self.what)
    }
}
