//! The names of quotas, their units, and their built-in values.

use super::value::QuotaValue;
use crate::suggest::did_you_mean;

macro_rules! names {
    ($($(#[$doc:meta])* $variant:ident = $word:literal, $unit:ident, $built_in:expr;)+) => {
        /// The name of a quota.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum QuotaName { $($(#[$doc])* $variant,)+ }

        impl QuotaName {
            pub const ALL: &'static [QuotaName] = &[$(QuotaName::$variant,)+];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }

            pub const fn unit(self) -> QuotaUnit {
                match self { $(Self::$variant => QuotaUnit::$unit,)+ }
            }

            /// The value if neither a row nor the settings have one. `docs/QUOTAS.md` explains the numbers.
            pub const fn built_in(self) -> QuotaValue {
                match self { $(Self::$variant => $built_in,)+ }
            }
        }
    };
}

const MOST_OF_A_PROCESS: QuotaValue = QuotaValue::Share { parts: 3, of: 4 };
const DAY: u64 = 86_400_000;

names! {
    /// Requests of the tenant, per ingress process.
    RequestsPerSecond = "requests_per_second", Number, QuotaValue::Unlimited;
    /// Burst of requests after a quiet time; unlimited: as many as in one second.
    RequestsBurst = "requests_burst", Number, QuotaValue::Unlimited;
    /// Events that the tenant's clients post, per ingress process.
    EventsPerSecond = "events_per_second", Number, QuotaValue::Unlimited;
    /// Burst of events after a quiet time; unlimited: as many as in one second.
    EventsBurst = "events_burst", Number, QuotaValue::Unlimited;
    /// Share of `ingress.max_in_flight`.
    RequestsInFlight = "requests_in_flight", Share, MOST_OF_A_PROCESS;
    /// Share of the bytes that all bodies of a process hold.
    BodyBytesInFlight = "body_bytes_in_flight", Share, MOST_OF_A_PROCESS;
    /// Callers that wait for an outcome, a task or an assignment.
    Waits = "waits", Share, MOST_OF_A_PROCESS;
    /// Open tails and watches.
    Streams = "streams", Share, MOST_OF_A_PROCESS;
    /// Share of a worker process's `worker.action_slots`.
    ActionSlots = "action_slots", Share, MOST_OF_A_PROCESS;
    /// Tasks that external workers hold a lease on.
    TaskLeases = "task_leases", Number, QuotaValue::AtMost(20_000);
    /// Executions that have not ended, graphs included.
    OpenExecutions = "open_executions", Number, QuotaValue::AtMost(1_000_000);
    /// Stored versions of definitions.
    Definitions = "definitions", Number, QuotaValue::AtMost(10_000);
    /// Registered executors.
    Executors = "executors", Number, QuotaValue::AtMost(500);
    /// Registered devices.
    Devices = "devices", Number, QuotaValue::AtMost(200_000);
    /// Runs of devices that have not ended.
    OpenRuns = "open_runs", Number, QuotaValue::AtMost(1_000_000);
    /// Stored API keys, including revoked and expired ones that have not been removed yet.
    Keys = "keys", Number, QuotaValue::AtMost(1_000);
    /// Queues of work for people.
    Queues = "queues", Number, QuotaValue::AtMost(1_000);
    /// Registered people.
    People = "people", Number, QuotaValue::AtMost(200_000);
    /// Items of queues that have not ended.
    QueueItems = "queue_items", Number, QuotaValue::AtMost(2_000_000);
    /// Bytes of payloads, histories and items, estimated.
    StoredBytes = "stored_bytes", Number, QuotaValue::Unlimited;
    /// Duration of one attempt of an action that a worker performs itself.
    MaxActionTimeout = "max_action_timeout", Duration, QuotaValue::AtMost(DAY);
    /// Attempts of one action.
    MaxAttempts = "max_attempts", Number, QuotaValue::AtMost(1_000);
    /// Nesting depth of executions that start executions.
    ChildDepth = "child_depth", Number, QuotaValue::AtMost(100);
    /// Children that executions of the tenant start, per worker process.
    ChildrenPerSecond = "children_per_second", Number, QuotaValue::AtMost(200);
    /// Total duration of one import.
    ImportDuration = "import_duration", Duration, QuotaValue::AtMost(900_000);
}

/// The unit of a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuotaUnit {
    Number,
    /// A number, or a share of a process's capacity.
    Share,
    /// Milliseconds; written as a duration.
    Duration,
}

impl QuotaName {
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|name| name.as_str() == word)
    }

    /// The quota with this name, or an error message with a suggestion.
    pub fn parse_or_suggest(word: &str) -> Result<Self, String> {
        Self::parse(word).ok_or_else(|| {
            let guess = did_you_mean(word, Self::ALL.iter().map(|name| name.as_str()));
            format!("there is no quota {word:?}{guess}")
        })
    }

    /// The rows of the store that it counts, if it counts rows.
    pub const fn counted_rows(self) -> Option<CountedQuota> {
        match self {
            Self::OpenExecutions => Some(CountedQuota::OpenExecutions),
            Self::Definitions => Some(CountedQuota::Definitions),
            Self::Executors => Some(CountedQuota::Executors),
            Self::Devices => Some(CountedQuota::Devices),
            Self::OpenRuns => Some(CountedQuota::OpenRuns),
            Self::Keys => Some(CountedQuota::Keys),
            Self::Queues => Some(CountedQuota::Queues),
            Self::People => Some(CountedQuota::People),
            Self::QueueItems => Some(CountedQuota::QueueItems),
            Self::StoredBytes => Some(CountedQuota::StoredBytes),
            Self::TaskLeases => Some(CountedQuota::TaskLeases),
            Self::RequestsPerSecond
            | Self::RequestsBurst
            | Self::EventsPerSecond
            | Self::EventsBurst
            | Self::RequestsInFlight
            | Self::BodyBytesInFlight
            | Self::Waits
            | Self::Streams
            | Self::ActionSlots
            | Self::MaxActionTimeout
            | Self::MaxAttempts
            | Self::ChildDepth
            | Self::ChildrenPerSecond
            | Self::ImportDuration => None,
        }
    }
}

impl std::fmt::Display for QuotaName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Quotas that count rows of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CountedQuota {
    OpenExecutions,
    Definitions,
    Executors,
    Devices,
    OpenRuns,
    Keys,
    Queues,
    People,
    QueueItems,
    StoredBytes,
    TaskLeases,
}

impl CountedQuota {
    pub const ALL: &'static [CountedQuota] = &[
        Self::OpenExecutions,
        Self::Definitions,
        Self::Executors,
        Self::Devices,
        Self::OpenRuns,
        Self::Keys,
        Self::Queues,
        Self::People,
        Self::QueueItems,
        Self::StoredBytes,
        Self::TaskLeases,
    ];

    pub const fn quota_name(self) -> QuotaName {
        match self {
            Self::OpenExecutions => QuotaName::OpenExecutions,
            Self::Definitions => QuotaName::Definitions,
            Self::Executors => QuotaName::Executors,
            Self::Devices => QuotaName::Devices,
            Self::OpenRuns => QuotaName::OpenRuns,
            Self::Keys => QuotaName::Keys,
            Self::Queues => QuotaName::Queues,
            Self::People => QuotaName::People,
            Self::QueueItems => QuotaName::QueueItems,
            Self::StoredBytes => QuotaName::StoredBytes,
            Self::TaskLeases => QuotaName::TaskLeases,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_quota_name_is_read_back() {
        for name in QuotaName::ALL {
            assert_eq!(QuotaName::parse_or_suggest(name.as_str()), Ok(*name));
        }
    }

    #[test]
    fn misspelt_quota_name_gets_suggestion() {
        let message = QuotaName::parse_or_suggest("open_execution").unwrap_err();
        assert_eq!(message, "there is no quota \"open_execution\" (did you mean \"open_executions\"?)");
    }

    #[test]
    fn counted_quotas_and_names_agree() {
        for name in QuotaName::ALL {
            assert!(name.counted_rows().is_none_or(|counted| counted.quota_name() == *name));
        }
        for counted in CountedQuota::ALL {
            assert_eq!(counted.quota_name().counted_rows(), Some(*counted));
        }
    }
}
