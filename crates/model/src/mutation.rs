//! Mutation testing: removes one guard on purpose, to prove that the history checks detect it.
//!
//! Each mutation removes one guard that the guarantees depend on. At most one is active, set once at process
//! start; the code at each guard calls [`is_active`]. This is the only global of the workspace: an argument would
//! have to pass through every store, stream and pure function for tests alone. Builds without debug
//! assertions contain none of it: there `is_active` is a constant `false`.

#[cfg(debug_assertions)]
use std::sync::OnceLock;

/// A removed guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutation {
    /// A worker acknowledges doorbells before it has decided anything.
    AckBeforeCommit,
    /// A commit does not check the current seq of the execution (no fencing).
    NoFence,
    /// A lock can be released and extended without its token.
    LockWithoutToken,
    /// The sweep for events without a doorbell is disabled.
    NoOverdueSweep,
    /// Two actions of one event settle concurrently.
    SettleWithoutLock,
    /// A timer fires after its state was left.
    StaleTimer,
    /// An attempt that crashes its worker is not counted.
    AttemptNotCounted,
    /// Any token of an action may renew, release and settle it.
    AnyToken,
    /// Any device may act on any claim, by any token.
    ClaimWithoutToken,
    /// The monitor for devices that miss their answer, start or heartbeat deadline is disabled.
    NoRunMonitor,
}

impl Mutation {
    pub const ALL: &'static [Mutation] = &[
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
static PLANTED: OnceLock<Mutation> = OnceLock::new();

/// Activates a mutation for the rest of this process; later calls have no effect. A build without debug
/// assertions ignores it.
pub fn activate_mutation(bug: Mutation) {
    #[cfg(debug_assertions)]
    let _ = PLANTED.set(bug);
    #[cfg(not(debug_assertions))]
    let _ = bug;
}

/// Whether this mutation is active.
#[cfg(debug_assertions)]
pub fn is_active(bug: Mutation) -> bool {
    PLANTED.get() == Some(&bug)
}

#[cfg(not(debug_assertions))]
pub const fn is_active(_bug: Mutation) -> bool {
    false
}
