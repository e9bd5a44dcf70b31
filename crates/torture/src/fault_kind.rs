//! The kinds of faults, and the lane of each.
//!
//! Lanes run in parallel: a worker may be stopped while Redis is down and the network to Postgres is slow.
//! Faults of one lane run sequentially, because they would undo each other.

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultKind {
    WorkerKill,
    WorkerKillMidCommit,
    WorkerStop,
    WorkerStopMidVisit,
    WorkerClockJump,
    LockOverrun,
    IngressKill,
    IngressKillUnrung,
    IngressStop,
    RollingRestart,
    RedisKill,
    RedisEmpty,
    RedisOlder,
    RedisStop,
    RedisFlush,
    RedisScriptFlush,
    RedisGroupDestroy,
    RedisFull,
    RedisWrongPolicy,
    Doorbells,
    PostgresKill,
    PostgresRestart,
    PostgresStop,
    PostgresCut,
    PostgresTimeout,
    PostgresReadOnly,
    PostgresFull,
    NetSlow,
    NetStall,
    NetHalfOpen,
    NetReset,
}

/// Faults of one lane run sequentially.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultLane {
    Processes,
    Redis,
    Postgres,
    Network,
}

impl FaultLane {
    pub const ALL: &'static [FaultLane] = &[Self::Processes, Self::Redis, Self::Postgres, Self::Network];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Processes => "processes",
            Self::Redis => "redis",
            Self::Postgres => "postgres",
            Self::Network => "network",
        }
    }
}

impl FaultKind {
    pub const ALL: &'static [FaultKind] = &[
        Self::WorkerKill,
        Self::WorkerKillMidCommit,
        Self::WorkerStop,
        Self::WorkerStopMidVisit,
        Self::WorkerClockJump,
        Self::LockOverrun,
        Self::IngressKill,
        Self::IngressKillUnrung,
        Self::IngressStop,
        Self::RollingRestart,
        Self::RedisKill,
        Self::RedisEmpty,
        Self::RedisOlder,
        Self::RedisStop,
        Self::RedisFlush,
        Self::RedisScriptFlush,
        Self::RedisGroupDestroy,
        Self::RedisFull,
        Self::RedisWrongPolicy,
        Self::Doorbells,
        Self::PostgresKill,
        Self::PostgresRestart,
        Self::PostgresStop,
        Self::PostgresCut,
        Self::PostgresTimeout,
        Self::PostgresReadOnly,
        Self::PostgresFull,
        Self::NetSlow,
        Self::NetStall,
        Self::NetHalfOpen,
        Self::NetReset,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::WorkerKill => "worker-kill",
            Self::WorkerKillMidCommit => "worker-kill-mid-commit",
            Self::WorkerStop => "worker-stop",
            Self::WorkerStopMidVisit => "worker-stop-mid-visit",
            Self::WorkerClockJump => "worker-clock-jump",
            Self::LockOverrun => "lock-overrun",
            Self::IngressKill => "ingress-kill",
            Self::IngressKillUnrung => "ingress-kill-unrung",
            Self::IngressStop => "ingress-stop",
            Self::RollingRestart => "rolling-restart",
            Self::RedisKill => "redis-kill",
            Self::RedisEmpty => "redis-restart-empty",
            Self::RedisOlder => "redis-restart-older",
            Self::RedisStop => "redis-stop",
            Self::RedisFlush => "redis-flushall",
            Self::RedisScriptFlush => "redis-script-flush",
            Self::RedisGroupDestroy => "redis-group-destroy",
            Self::RedisFull => "redis-full",
            Self::RedisWrongPolicy => "redis-wrong-policy",
            Self::Doorbells => "doorbells-again",
            Self::PostgresKill => "postgres-kill",
            Self::PostgresRestart => "postgres-restart",
            Self::PostgresStop => "postgres-stop",
            Self::PostgresCut => "postgres-cut",
            Self::PostgresTimeout => "postgres-timeout",
            Self::PostgresReadOnly => "postgres-read-only",
            Self::PostgresFull => "postgres-full",
            Self::NetSlow => "net-slow",
            Self::NetStall => "net-stall",
            Self::NetHalfOpen => "net-half-open",
            Self::NetReset => "net-reset",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    pub const fn lane(self) -> FaultLane {
        match self {
            Self::WorkerKill
            | Self::WorkerStop
            | Self::WorkerClockJump
            | Self::IngressKill
            | Self::IngressStop
            | Self::RollingRestart => FaultLane::Processes,
            Self::IngressKillUnrung
            | Self::RedisKill
            | Self::RedisEmpty
            | Self::RedisOlder
            | Self::RedisStop
            | Self::RedisFlush
            | Self::RedisScriptFlush
            | Self::RedisGroupDestroy
            | Self::RedisFull
            | Self::RedisWrongPolicy
            | Self::Doorbells => FaultLane::Redis,
            // Kinds that stop Postgres for a moment, to catch an operation in the middle.
            Self::WorkerKillMidCommit
            | Self::WorkerStopMidVisit
            | Self::LockOverrun
            | Self::PostgresKill
            | Self::PostgresRestart
            | Self::PostgresStop
            | Self::PostgresCut
            | Self::PostgresTimeout
            | Self::PostgresReadOnly
            | Self::PostgresFull => FaultLane::Postgres,
            Self::NetSlow | Self::NetStall | Self::NetHalfOpen | Self::NetReset => FaultLane::Network,
        }
    }

    /// Whether no other fault may be active, because effects could not be attributed.
    pub const fn is_alone(self) -> bool {
        matches!(self, Self::RollingRestart | Self::LockOverrun)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_kind_names_parse_back() {
        for kind in FaultKind::ALL {
            assert_eq!(FaultKind::parse(kind.name()), Some(*kind));
        }
        assert_eq!(FaultKind::parse("weather"), None);
    }
}
