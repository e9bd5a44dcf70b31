//! Bugs that can be planted on purpose, to prove that the checks of a history can fail.
//!
//! Each takes one guard away that the promises rest on. At most one is planted, once, when the process
//! starts; the places that keep the guards ask [`is`]. This is the one global of the workspace: an
//! argument would have to go through every store, stream and pure function for the sake of tests alone.
//! Builds without debug assertions carry none of it: there `is` is `false` to the compiler.

#[cfg(debug_assertions)]
use std::sync::OnceLock;

/// A guard that is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// A worker acknowledges doorbells before it has decided anything.
    AckBeforeCommit,
    /// A commit does not look where the execution stands.
    NoFence,
    /// A lock is released and extended by whoever asks.
    LockWithoutToken,
    /// Nobody looks for events that were never rung.
    NoOverdueSweep,
    /// Two actions of one event settle side by side.
    SettleWithoutLock,
    /// A timer fires although its state was left.
    StaleTimer,
    /// What kills its worker is not counted.
    AttemptNotCounted,
    /// Any token of an action may renew, release and settle it.
    AnyToken,
    /// Any device may act on any claim, by any token.
    ClaimWithoutToken,
    /// Nobody looks for devices that did not answer, begin or beat in time.
    NoRunMonitor,
}

impl Bug {
    pub const ALL: &'static [Bug] = &[
        Self::AckBeforeCommit,
        Self::NoFence,
        Self::LockWithoutToken,
        Self::NoOverdueSweep,
        Self::SettleWithoutLock,
        Self::StaleTimer,
        Self::AttemptNotCounted,
        Self::AnyToken,
        Self::ClaimWithoutToken,
        Self::NoRunMonitor,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::AckBeforeCommit => "ack-before-commit",
            Self::NoFence => "no-fence",
            Self::LockWithoutToken => "lock-without-token",
            Self::NoOverdueSweep => "no-overdue-sweep",
            Self::SettleWithoutLock => "settle-without-lock",
            Self::StaleTimer => "stale-timer",
            Self::AttemptNotCounted => "attempt-not-counted",
            Self::AnyToken => "any-token",
            Self::ClaimWithoutToken => "claim-without-token",
            Self::NoRunMonitor => "no-run-monitor",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|bug| bug.name() == name)
    }
}

#[cfg(debug_assertions)]
static PLANTED: OnceLock<Bug> = OnceLock::new();

/// Plants a bug for the rest of this process; the first one stays. Nothing happens in a build without
/// debug assertions.
pub fn plant(bug: Bug) {
    #[cfg(debug_assertions)]
    let _ = PLANTED.set(bug);
    #[cfg(not(debug_assertions))]
    let _ = bug;
}

/// Whether this bug was planted.
#[cfg(debug_assertions)]
pub fn is(bug: Bug) -> bool {
    PLANTED.get() == Some(&bug)
}

#[cfg(not(debug_assertions))]
pub const fn is(_bug: Bug) -> bool {
    false
}
