//! Settings of the processes under test, and the deadlines derived from them.

use std::time::Duration;

use crate::options::TortureTimes;

/// The event that kills the worker that is about to decide it, in debug builds.
pub const POISON: &str = "poison";
/// Clock jump of a worker, in debug builds.
pub const JUMP: Duration = Duration::from_secs(3);

/// Deadlines promised by the settings; faults last longer than these, and recoveries are measured against
/// them.
#[derive(Debug, Clone, Copy)]
pub struct RecoveryDeadlines {
    pub lease: Duration,
    pub lock_ttl: Duration,
    pub reclaim_idle: Duration,
    pub overdue: Duration,
    pub statement_timeout: Duration,
    pub lock_timeout: Duration,
    pub drain: Duration,
}

const fn duration_millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

impl RecoveryDeadlines {
    pub const fn for_times(times: TortureTimes) -> Self {
        match times {
            TortureTimes::Tenth => Self {
                lease: duration_millis(1_500),
                lock_ttl: duration_millis(1_500),
                reclaim_idle: duration_millis(3_000),
                overdue: duration_millis(1_000),
                statement_timeout: duration_millis(1_000),
                lock_timeout: duration_millis(500),
                drain: duration_millis(2_500),
            },
            TortureTimes::Default => Self {
                lease: duration_millis(15_000),
                lock_ttl: duration_millis(15_000),
                reclaim_idle: duration_millis(30_000),
                overdue: duration_millis(10_000),
                statement_timeout: duration_millis(10_000),
                lock_timeout: duration_millis(5_000),
                drain: duration_millis(25_000),
            },
        }
    }

    /// Longer than the expiry of a lock and of an unacknowledged doorbell of a stopped process.
    pub fn long_stop(&self) -> Duration {
        self.lock_ttl.max(self.reclaim_idle) + duration_millis(700)
    }
}

/// As environment variables; the defaults need none.
pub(super) fn environment_variables(times: TortureTimes) -> Vec<(String, String)> {
    let deadlines = RecoveryDeadlines::for_times(times);
    let millis = |length: Duration| format!("{}ms", length.as_millis());
    let mut settings = vec![("MILLSTREAM_LOG_FORMAT", "text".to_owned())];
    match times {
        TortureTimes::Default => {}
        TortureTimes::Tenth => settings.extend([
            ("MILLSTREAM_WORKER__LEASE", millis(deadlines.lease)),
            ("MILLSTREAM_WORKER__LOCK_TTL", millis(deadlines.lock_ttl)),
            ("MILLSTREAM_WORKER__RECLAIM_IDLE", millis(deadlines.reclaim_idle)),
            ("MILLSTREAM_WORKER__OVERDUE", millis(deadlines.overdue)),
            ("MILLSTREAM_WORKER__DRAIN", millis(deadlines.drain)),
            ("MILLSTREAM_INGRESS__DRAIN", millis(deadlines.drain)),
            ("MILLSTREAM_POSTGRES__STATEMENT_TIMEOUT", millis(deadlines.statement_timeout)),
            ("MILLSTREAM_POSTGRES__LOCK_TIMEOUT", millis(deadlines.lock_timeout)),
            // Not a tenth: opening a connection does not become faster.
            ("MILLSTREAM_POSTGRES__ACQUIRE_TIMEOUT", millis(duration_millis(1_000))),
        ]),
    }
    settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
