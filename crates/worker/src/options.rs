//! Options of a worker. It reads no file and no environment.
//!
//! The durations depend on each other; [`WorkerOptions::check`] refuses sets in which a live worker could be
//! taken for a dead one.

use std::time::Duration;

use ipnet::IpNet;
use millstream_devices::claim::DevicePolicy;
use millstream_model::crash::CrashPoint;
use millstream_model::fair::TenantWeights;
use millstream_model::id::{Name, WorkerId};
use millstream_model::lane::Lane;
use millstream_model::network_policy::NetworkPolicy;
use millstream_model::quota::QuotaSettings;
use millstream_model::time::Timestamp;
use millstream_rpc::evaluation_pool::EvaluationPlace;
use millstream_store::execution_store::MailboxLimits;
use rustls::pki_types::CertificateDer;

use crate::error::WorkerFailure;
use crate::executors::FixedExecutor;

/// All options of one worker loop.
#[derive(Debug, Clone)]
pub struct WorkerOptions {
    /// Unique per start; there is no default.
    pub worker: WorkerId,
    /// The lanes to read.
    pub lanes: Vec<Lane>,
    /// Doorbells read per lane and read call, and executions decided per commit.
    pub batch: usize,
    /// Batches in flight at the same time: the next one is loaded while the last one commits.
    pub visits: usize,
    /// Maximum of held doorbells (read and not acknowledged). At the maximum, reading waits (backpressure).
    pub held: usize,
    /// Weight of each tenant in the fair queue, while others wait too.
    pub weights: TenantWeights,
    /// Longest time that one read blocks; also the delay until the reader notices a shutdown.
    pub block: Duration,
    /// How much of one mailbox a visit loads.
    pub mailbox: MailboxLimits,
    /// Bytes of mailboxes that one visit loads, and one commit writes, over all its executions.
    pub visit_bytes: usize,
    /// Undecided events that one visit loads over all its executions, and at least one of each. Other tenants,
    /// and later events of the same executions, wait for the statements of a visit. Deferred events come in
    /// addition.
    pub visit_events: usize,
    /// Bytes of decoded state cached for the next visit.
    pub state_cache_bytes: usize,
    /// Actions performed at the same time.
    pub action_slots: usize,
    /// Nodes held at the same time: those at executors and those that wait for capacity or for their outcome
    /// to be recorded. One kind, by role and labels, has at most half of the slots that the others leave.
    pub node_slots: usize,
    /// How long a lease on an action lasts; renewed at a third.
    pub lease: Duration,
    /// How long a lock on an execution lasts; extended at a third.
    pub lock_ttl: Duration,
    /// Time limit for deciding one visit; a visit over it is aborted, counted and retried alone. It is far
    /// more than the permitted expression work takes, except on a starved machine.
    pub decision_patience: Duration,
    /// Where expensive expressions are evaluated and definitions are compiled.
    pub evaluation_place: EvaluationPlace,
    /// A doorbell idle for this long belongs to a dead worker; refreshed at a third.
    pub reclaim_idle: Duration,
    /// An event undecided for this long is rung again, then at double the age, and so on.
    pub overdue: Duration,
    /// The longest pause between two looks at timers and at actions without a doorbell.
    pub tick: Duration,
    /// Period of the worker's heartbeat.
    pub beat: Duration,
    /// Time limit of a shutdown for finishing the work in hand; the rest is handed back.
    pub drain: Duration,
    /// Number of decisions of an event that may be cut short before it is quarantined.
    pub poison_cap: i32,
    /// The decision of an event accepted before this time may have been cut short by the death of a process,
    /// without a doorbell to show it: set where the stream dies with the process and the last process died.
    pub suspect_before: Option<Timestamp>,
    pub http: HttpOptions,
    pub retention: RetentionPeriods,
    /// Device runs: weights of the choice, and time limits of devices.
    pub devices: DevicePolicy,
    /// Tenant quotas from the settings; rows of the store override them.
    pub quotas: QuotaSettings,
    /// Executors that need not register.
    pub executors: Vec<FixedExecutor>,
    /// Networks in which executors that registered themselves may be.
    pub executor_networks: NetworkPolicy,
    /// An executor without a heartbeat for this long gets no more nodes.
    pub executor_silence: Duration,
    /// How long a signal by correlation waits for its execution.
    pub signal_ttl: Duration,
    /// Shown in the list of workers.
    pub version: String,
    /// Crash point. Effective only in builds with debug assertions.
    pub crash: Option<CrashPoint>,
    /// Crash instead of deciding an event of this name. Effective only in builds with debug assertions.
    pub crash_on: Option<Name>,
}

/// Limits of HTTP actions.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// Private networks that may be reached.
    pub allow: Vec<IpNet>,
    /// Upper bound on a response, in bytes as read and as JSON when kept: the result reaches the execution in
    /// an event.
    pub max_response: usize,
    pub connect_timeout: Duration,
    pub max_redirects: usize,
    /// CAs that are trusted besides the public ones, also for executors.
    pub private_roots: Vec<CertificateDer<'static>>,
}

/// Retention periods, counted from the end.
#[derive(Debug, Clone, Copy)]
pub struct RetentionPeriods {
    pub completed: Duration,
    pub failed: Duration,
    pub cancelled: Duration,
    /// Of idempotency keys.
    pub keys: Duration,
}

/// The ingress limit per event, which applies to the engine's own events as well.
const MAX_EVENT_BYTES: usize = 256 * 1024;

const MOST_SPARE_LEASES: usize = 64;

const UNNAMED: &str = "unnamed";
const DAY: Duration = Duration::from_secs(86_400);

impl WorkerOptions {
    /// Upper bound on leased actions: those being performed, and some that wait for their turn or for their
    /// outcome to be recorded.
    pub(crate) fn max_action_leases(&self) -> usize {
        self.action_slots.saturating_add(self.spare_leases())
    }

    /// The same with nodes.
    pub(crate) fn max_leases(&self) -> usize {
        self.max_action_leases().saturating_add(self.node_slots)
    }

    /// What a visit to this many executions loads of each mailbox at first.
    pub(crate) fn mailbox_share(&self, executions: usize) -> MailboxLimits {
        let executions = executions.max(1);
        MailboxLimits {
            events: self.mailbox.events.min(self.visit_events / executions).max(1),
            bytes: self.mailbox.bytes.min(self.visit_bytes / executions),
        }
    }

    /// What the visit loads of the mailboxes that exceeded their share, when the others needed less than theirs.
    /// `None` when a second load would hardly bring more than the first.
    pub(crate) fn remaining_share(
        &self,
        share: MailboxLimits,
        loaded: MailboxLimits,
        exceeding: usize,
    ) -> Option<MailboxLimits> {
        let spare = |most: usize, loaded: usize| most.saturating_sub(loaded) / exceeding.max(1);
        let events = self.mailbox.events.min(share.events + spare(self.visit_events, loaded.events));
        let bytes = self.mailbox.bytes.min(share.bytes + spare(self.visit_bytes, loaded.bytes));
        (exceeding > 0 && events >= 2 * share.events).then_some(MailboxLimits { events, bytes })
    }

    /// Enough that no slot is idle during a round trip to the store, and few enough that no other worker is
    /// idle because the actions wait here.
    pub(crate) fn spare_leases(&self) -> usize {
        self.action_slots.min(MOST_SPARE_LEASES)
    }

    /// The defaults, for this worker.
    pub fn for_worker(worker: WorkerId) -> Self {
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
            visit_events: 2048,
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
            retention: RetentionPeriods::default(),
            devices: DevicePolicy::default(),
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

    /// Checks every inequality that the repairs rely on and reports all violations at once.
    pub fn check(&self) -> Result<(), WorkerFailure> {
        let mut wrong = Vec::new();
        let mut must = |holds: bool, what: &str| {
            if !holds {
                wrong.push(what.to_owned());
            }
        };
        must(self.worker.as_str() != UNNAMED, "worker: a worker needs an id of its own");
        must(!self.lanes.is_empty(), "lanes: at least one lane must be read");
        must(self.batch > 0, "batch: must be at least 1");
        must(self.visit_events > 0, "visit_events: must be at least 1");
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
            "beat: must be at most 20s, or a live worker is taken for dead",
        );
        must(
            self.http.max_response <= MAX_EVENT_BYTES - 8 * 1024,
            "http.max_response: must leave room for the rest of a result event, which has at most 256 KiB",
        );
        must(!self.tick.is_zero(), "tick: must not be zero");
        must(!self.overdue.is_zero(), "overdue: must not be zero");
        if wrong.is_empty() { Ok(()) } else { Err(WorkerFailure::Options(wrong)) }
    }
}

/// Without an id: [`WorkerOptions::check`] requires one.
impl Default for WorkerOptions {
    fn default() -> Self {
        #[expect(clippy::expect_used, reason = "a literal of allowed characters")]
        Self::for_worker(WorkerId::parse(UNNAMED).expect("a valid id"))
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

impl Default for RetentionPeriods {
    fn default() -> Self {
        Self { completed: 30 * DAY, failed: 30 * DAY, cancelled: 30 * DAY, keys: 90 * DAY }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named() -> WorkerOptions {
        WorkerOptions::for_worker(WorkerId::parse("w").unwrap())
    }

    #[test]
    fn named_default_options_are_valid() {
        named().check().unwrap();
        assert!(WorkerOptions::default().check().is_err());
    }

    #[test]
    fn lock_outliving_reclaim_is_refused() {
        let options = WorkerOptions { lock_ttl: Duration::from_secs(30), ..named() };
        let error = options.check().unwrap_err().to_string();
        assert!(error.contains("lock_ttl"), "{error}");
    }

    #[test]
    fn mailboxes_share_the_events_and_bytes_of_a_visit() {
        let options = named();
        let share = |executions| {
            let MailboxLimits { events, bytes } = options.mailbox_share(executions);
            (events, bytes)
        };
        assert_eq!(share(1), (256, 1024 * 1024));
        assert_eq!(share(256), (8, 64 * 1024));
        assert_eq!(share(100_000).0, 1, "every execution makes progress");
    }

    #[test]
    fn deep_mailbox_gets_what_small_ones_leave() {
        let options = named();
        let share = options.mailbox_share(256);
        // 255 mailboxes of one event, and one of many.
        let loaded = MailboxLimits { events: 263, bytes: 263 * 600 };
        let deep = options.remaining_share(share, loaded, 1).unwrap();
        assert_eq!((deep.events, deep.bytes), (256, 1024 * 1024));
        // All are deep.
        let loaded = MailboxLimits { events: 2048, bytes: 2048 * 600 };
        assert!(options.remaining_share(share, loaded, 256).is_none());
        // Nothing was cut.
        assert!(options.remaining_share(share, MailboxLimits { events: 3, bytes: 1800 }, 0).is_none());
        // The limit of one mailbox is reached already.
        let share = options.mailbox_share(2);
        assert!(options.remaining_share(share, MailboxLimits { events: 300, bytes: 1 }, 1).is_none());
    }

    #[test]
    fn options_check_reports_all_errors() {
        let options = WorkerOptions { batch: 0, action_slots: 0, poison_cap: 0, ..named() };
        let WorkerFailure::Options(wrong) = options.check().unwrap_err() else { panic!("other error") };
        assert_eq!(wrong.len(), 3, "{wrong:?}");
    }
}
