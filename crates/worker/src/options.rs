//! What a worker is told at its start. It reads no file and no environment.
//!
//! The lengths of time depend on each other; [`WorkerOptions::check`] refuses sets in which a live
//! worker could be taken for a dead one.

use std::time::Duration;

use ipnet::IpNet;
use millstream_core::claim::Policy;
use millstream_core::crash::CrashPoint;
use millstream_core::fair::TenantWeights;
use millstream_core::id::{Name, WorkerId};
use millstream_core::lane::Lane;
use millstream_core::network_policy::NetworkPolicy;
use millstream_core::quota::QuotaSettings;
use millstream_core::time::Timestamp;
use millstream_rpc::evaluation_pool::EvaluationPlace;
use millstream_store::execution_store::MailboxLimits;
use rustls::pki_types::CertificateDer;

use crate::error::WorkerError;
use crate::executors::FixedExecutor;

/// Everything that can be set about one worker loop.
#[derive(Debug, Clone)]
pub struct WorkerOptions {
    /// Unique per start; there is no default.
    pub worker: WorkerId,
    /// The lanes that it reads.
    pub lanes: Vec<Lane>,
    /// Doorbells taken per lane and read, and executions decided per commit.
    pub batch: usize,
    /// Batches in flight at the same time: the next one is loaded while the last one commits.
    pub visits: usize,
    /// Doorbells held at most (read and not acknowledged). Beyond it reading waits.
    pub held: usize,
    /// How much of the worker each tenant gets while others wait too.
    pub weights: TenantWeights,
    /// How long one read waits for news; also how long a shutdown may go unnoticed by the reader.
    pub block: Duration,
    /// How much of one mailbox a visit takes.
    pub mailbox: MailboxLimits,
    /// How many bytes of mailboxes one visit loads, and one commit writes, over all its executions.
    pub visit_bytes: usize,
    /// Bytes of decoded state kept for the next visit.
    pub state_cache_bytes: usize,
    /// Actions performed at the same time.
    pub action_slots: usize,
    /// Nodes of graphs held at the same time: those at executors and those that wait for a place or for their
    /// outcome to be recorded. One kind, by role and labels, has at most half of what the others leave.
    pub node_slots: usize,
    /// How long a lease on an action lasts; renewed at a third.
    pub lease: Duration,
    /// How long a lock on an execution lasts; extended at a third.
    pub lock_ttl: Duration,
    /// Deciding one visit that takes longer than this by the clock is given up, counted and tried again alone.
    /// Far more than the work that expressions may do takes on a machine that is not starved.
    pub decision_patience: Duration,
    /// Where expressions that take long are evaluated and definitions are compiled.
    pub evaluation_place: EvaluationPlace,
    /// A doorbell idle for this long belongs to a dead worker; refreshed at a third.
    pub reclaim_idle: Duration,
    /// An event undecided for this long is rung again, then at double the age.
    pub overdue: Duration,
    /// The longest pause between two looks at timers and at actions that nobody rang for.
    pub tick: Duration,
    /// How often it says that it is up.
    pub beat: Duration,
    /// How long a shutdown may take to finish what is in hand; the rest is handed back.
    pub drain: Duration,
    /// How often deciding an event may be cut short before it is put aside.
    pub poison_cap: i32,
    /// Deciding an event accepted up to here may have been cut short by the death of a process, of which
    /// no doorbell tells: set where the stream dies with the process and the last one died.
    pub suspect_before: Option<Timestamp>,
    pub http: HttpOptions,
    pub retention: Retention,
    /// Runs of devices: how choices are weighed, and how long devices may take.
    pub devices: Policy,
    /// What the settings say about quotas of tenants; rows of the store win over it.
    pub quotas: QuotaSettings,
    /// Executors that need not register.
    pub executors: Vec<FixedExecutor>,
    /// Where executors that registered themselves may be.
    pub executor_networks: NetworkPolicy,
    /// An executor that was not heard from for this long gets nothing more.
    pub executor_silence: Duration,
    /// How long a signal by correlation waits for its execution.
    pub signal_ttl: Duration,
    /// Shown in the list of workers.
    pub version: String,
    /// Die here. Only builds with debug assertions obey.
    pub crash: Option<CrashPoint>,
    /// Die instead of deciding an event of this name. Only builds with debug assertions obey.
    pub crash_on: Option<Name>,
}

/// What HTTP actions may do.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// Networks that may be reached although they are private.
    pub allow: Vec<IpNet>,
    /// Longer answers are refused, in bytes as they are read and as JSON when they are kept: a result
    /// is told to the execution by an event.
    pub max_response: usize,
    pub connect_timeout: Duration,
    pub max_redirects: usize,
    /// CAs that are trusted beside the public ones, also for executors.
    pub private_roots: Vec<CertificateDer<'static>>,
}

/// How long things are kept after their end.
#[derive(Debug, Clone, Copy)]
pub struct Retention {
    pub completed: Duration,
    pub failed: Duration,
    pub cancelled: Duration,
    /// Of idempotency keys.
    pub keys: Duration,
}

/// What the door accepts as one event holds for events of the engine's own as well.
const MAX_EVENT_BYTES: usize = 256 * 1024;

const MOST_SPARE_LEASES: usize = 64;

const UNNAMED: &str = "unnamed";
const DAY: Duration = Duration::from_secs(86_400);

impl WorkerOptions {
    /// How many actions a worker may hold a lease on: those that it performs, and some that wait for
    /// their turn or for their outcome to be recorded.
    pub(crate) fn leases(&self) -> usize {
        self.action_slots.saturating_add(self.spare_leases())
    }

    /// The same with nodes.
    pub(crate) fn all_leases(&self) -> usize {
        self.leases().saturating_add(self.node_slots)
    }

    /// Enough that no slot stands idle for a round trip to the store, and few enough that no other worker
    /// does because the actions wait here.
    pub(crate) fn spare_leases(&self) -> usize {
        self.action_slots.min(MOST_SPARE_LEASES)
    }

    /// The defaults, for this worker.
    pub fn of(worker: WorkerId) -> Self {
        Self {
            worker,
            lanes: Lane::all().collect(),
            batch: 256,
            visits: 2,
            held: 8192,
            weights: TenantWeights::default(),
            block: Duration::from_millis(500),
            mailbox: MailboxLimits::default(),
            visit_bytes: 16 * 1024 * 1024,
            state_cache_bytes: 24 * 1024 * 1024,
            action_slots: 1024,
            node_slots: 2048,
            lease: Duration::from_secs(15),
            lock_ttl: Duration::from_secs(15),
            decision_patience: Duration::from_secs(5),
            evaluation_place: EvaluationPlace::Threads,
            reclaim_idle: Duration::from_secs(30),
            overdue: Duration::from_secs(10),
            tick: Duration::from_secs(1),
            beat: Duration::from_secs(5),
            drain: Duration::from_secs(25),
            poison_cap: 5,
            suspect_before: None,
            http: HttpOptions::default(),
            retention: Retention::default(),
            devices: Policy::default(),
            quotas: QuotaSettings::default(),
            executors: Vec::new(),
            executor_networks: NetworkPolicy::default(),
            executor_silence: Duration::from_secs(15),
            signal_ttl: DAY,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            crash: None,
            crash_on: None,
        }
    }

    /// Every inequality that the repairs rely on, all at once.
    pub fn check(&self) -> Result<(), WorkerError> {
        let mut wrong = Vec::new();
        let mut must = |holds: bool, what: &str| {
            if !holds {
                wrong.push(what.to_owned());
            }
        };
        must(self.worker.as_str() != UNNAMED, "worker: a worker needs an id of its own");
        must(!self.lanes.is_empty(), "lanes: at least one lane must be read");
        must(self.batch > 0, "batch: must be at least 1");
        must(self.visits > 0, "visits: must be at least 1");
        must(self.held >= self.batch, "held: must be at least batch");
        must(self.action_slots > 0, "action_slots: must be at least 1");
        must(self.node_slots > 0, "node_slots: must be at least 1");
        must(self.mailbox.events > 0, "mailbox.events: must be at least 1");
        must(self.poison_cap > 0, "poison_cap: must be at least 1");
        must(self.lease >= Duration::from_millis(30), "lease: must leave room to renew it at a third");
        must(
            self.lock_ttl < self.reclaim_idle,
            "lock_ttl: must be shorter than reclaim_idle, or a reclaimed doorbell meets the dead worker's lock",
        );
        must(
            self.block * 3 <= self.reclaim_idle,
            "reclaim_idle: must be at least three times block, or doorbells in a live reader's hands are taken over",
        );
        must(
            self.beat * 3 <= Duration::from_secs(60),
            "beat: must be at most 20s, or a live worker is taken for gone",
        );
        must(
            self.http.max_response <= MAX_EVENT_BYTES - 8 * 1024,
            "http.max_response: must leave room for the rest of a result event, which has at most 256 KiB",
        );
        must(!self.tick.is_zero(), "tick: must not be zero");
        must(!self.overdue.is_zero(), "overdue: must not be zero");
        if wrong.is_empty() { Ok(()) } else { Err(WorkerError::Options(wrong)) }
    }
}

/// Without a name: [`WorkerOptions::check`] asks for one.
impl Default for WorkerOptions {
    fn default() -> Self {
        #[expect(clippy::expect_used, reason = "a literal of allowed characters")]
        Self::of(WorkerId::parse(UNNAMED).expect("a valid id"))
    }
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            allow: Vec::new(),
            max_response: 192 * 1024,
            connect_timeout: Duration::from_secs(5),
            max_redirects: 5,
            private_roots: Vec::new(),
        }
    }
}

impl Default for Retention {
    fn default() -> Self {
        Self { completed: 30 * DAY, failed: 30 * DAY, cancelled: 30 * DAY, keys: 90 * DAY }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named() -> WorkerOptions {
        WorkerOptions::of(WorkerId::parse("w").unwrap())
    }

    #[test]
    fn the_defaults_hold_together_once_there_is_a_name() {
        named().check().unwrap();
        assert!(WorkerOptions::default().check().is_err());
    }

    #[test]
    fn a_lock_that_outlives_reclaim_is_refused() {
        let options = WorkerOptions { lock_ttl: Duration::from_secs(30), ..named() };
        let error = options.check().unwrap_err().to_string();
        assert!(error.contains("lock_ttl"), "{error}");
    }

    #[test]
    fn everything_wrong_is_named_at_once() {
        let options = WorkerOptions { batch: 0, action_slots: 0, poison_cap: 0, ..named() };
        let WorkerError::Options(wrong) = options.check().unwrap_err() else { panic!("other error") };
        assert_eq!(wrong.len(), 3, "{wrong:?}");
    }
}
