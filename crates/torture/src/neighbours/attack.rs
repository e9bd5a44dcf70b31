//! The attacks by name.

/// One kind of hostile behaviour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NeighbourAttack {
    /// No attack: the baseline.
    None,
    /// Anonymous requests with long and ever different paths, over HTTP/1.1 and gRPC.
    Paths,
    /// Anonymous HTTP/2 connections that only answer pings.
    IdleHttp2,
    /// Anonymous gRPC calls that never send their message.
    EmptyCalls,
    /// Anonymous health watches.
    HealthWatches,
    /// Requests with keys that do not exist.
    UnknownKeys,
    /// Bodies that arrive one byte at a time.
    SlowBodies,
    /// As many open tails as the ingress allows.
    Tails,
    /// As many waiting task leases as the ingress allows.
    LongPolls,
    /// Expressions that would read and build gigabytes.
    Expressions,
    /// A definition that starts itself twice.
    SelfStart,
    /// Actions against a target that never answers.
    TarpitActions,
    /// Work at low quotas of events, executions and slots, with repeats under idempotency keys.
    AtQuota,
    /// A hundred thousand events at once.
    Burst,
    /// The burst again, while Redis is emptied, single keys are deleted and a worker is killed.
    BurstWithFaults,
}

impl NeighbourAttack {
    pub const ALL: &'static [Self] = &[
        Self::None,
        Self::Paths,
        Self::IdleHttp2,
        Self::EmptyCalls,
        Self::HealthWatches,
        Self::UnknownKeys,
        Self::SlowBodies,
        Self::Tails,
        Self::LongPolls,
        Self::Expressions,
        Self::SelfStart,
        Self::TarpitActions,
        Self::AtQuota,
        Self::Burst,
        Self::BurstWithFaults,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Paths => "paths",
            Self::IdleHttp2 => "idle-http2",
            Self::EmptyCalls => "empty-calls",
            Self::HealthWatches => "health-watches",
            Self::UnknownKeys => "unknown-keys",
            Self::SlowBodies => "slow-bodies",
            Self::Tails => "tails",
            Self::LongPolls => "long-polls",
            Self::Expressions => "expressions",
            Self::SelfStart => "self-start",
            Self::TarpitActions => "tarpit-actions",
            Self::AtQuota => "at-quota",
            Self::Burst => "burst",
            Self::BurstWithFaults => "burst-with-faults",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|attack| attack.name() == name)
    }

    /// Whether the honest tenant's latencies are judged. While faults are injected into the fleet, they are
    /// only shown, and the criterion is that nothing is lost.
    pub const fn is_judged_by_latency(self) -> bool {
        match self {
            Self::None
            | Self::Paths
            | Self::IdleHttp2
            | Self::EmptyCalls
            | Self::HealthWatches
            | Self::UnknownKeys
            | Self::SlowBodies
            | Self::Tails
            | Self::LongPolls
            | Self::Expressions
            | Self::SelfStart
            | Self::TarpitActions
            | Self::AtQuota
            | Self::Burst => true,
            Self::BurstWithFaults => false,
        }
    }
}
