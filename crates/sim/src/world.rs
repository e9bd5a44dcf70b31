//! Shared state of a run: randomness, counters, the trace, the unmodified store, and the guards.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use millstream_model::time::Timestamp;
use millstream_store::Stores;
use millstream_store::clock::StoreClock;
use millstream_store_memory::MemoryStore;
use tokio::time::Instant;

use crate::bus::StreamBus;
use crate::check::SimViolation;
use crate::dice::SimDice;
use crate::guard::{LeaseGuard, LockGuard};
use crate::plan::SimPlan;
use crate::sink::SimSink;
use crate::tally::{SimCount, SimTally};
use crate::trace::{SimTrace, TraceRecording};

/// Start time of every run.
pub(crate) const DAWN: Timestamp = Timestamp::from_millis(1_700_000_000_000);

#[derive(Debug)]
pub(crate) struct SimWorld {
    pub(crate) plan: SimPlan,
    /// Randomness of the schedule.
    pub(crate) dice: SimDice,
    pub(crate) tally: SimTally,
    pub(crate) trace: SimTrace,
    /// The store without the fault schedule.
    pub(crate) truth: Stores,
    pub(crate) clock: Arc<StoreClock>,
    pub(crate) bus: StreamBus,
    pub(crate) sink: SimSink,
    pub(crate) locks: LockGuard,
    pub(crate) leases: LeaseGuard,
    begun: Instant,
    calm: AtomicBool,
    seen: Mutex<Vec<SimViolation>>,
}

impl SimWorld {
    /// Without faults, until [`SimWorld::start_faults`].
    pub(crate) fn from_seed(seed: u64, record: TraceRecording) -> Arc<Self> {
        let dice = SimDice::from_seed(seed);
        let plan = SimPlan::for_seed(seed, &dice);
        let clock = Arc::new(StoreClock::starting_at(DAWN));
        Arc::new(Self {
            plan,
            tally: SimTally::default(),
            trace: SimTrace::new(record),
            truth: Stores::from_backend(MemoryStore::with_clock(clock.clone())),
            clock,
            bus: StreamBus::new(dice.independent_stream()),
            sink: SimSink::default(),
            locks: LockGuard::default(),
            leases: LeaseGuard::default(),
            begun: Instant::now(),
            calm: AtomicBool::new(true),
            seen: Mutex::default(),
            dice,
        })
    }

    pub(crate) fn start_faults(&self) {
        self.calm.store(false, Ordering::Relaxed);
        self.trace_line("world", || "the faults begin".to_owned());
    }

    pub(crate) fn calm_down(&self) {
        self.calm.store(true, Ordering::Relaxed);
        self.trace_line("world", || "no more faults".to_owned());
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.calm.load(Ordering::Relaxed)
    }

    /// Whether a fault with this rate happens now; never after the faults have ended.
    pub(crate) fn draws_fault(&self, per_100k: u32) -> bool {
        !self.is_calm() && self.dice.hits(per_100k)
    }

    pub(crate) fn trace_line(&self, role: &str, text: impl FnOnce() -> String) {
        self.trace.line(self.begun.elapsed(), role, text);
    }

    pub(crate) fn count(&self, what: SimCount) {
        self.tally.add(what, 1);
    }

    /// Records a violation at the time it is observed.
    pub(crate) fn report_violation(&self, violation: SimViolation) {
        self.trace_line("guard", || violation.to_string());
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).push(violation);
    }

    pub(crate) fn seen_violations(&self) -> Vec<SimViolation> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Travel time of this call.
    pub(crate) fn draw_delay(&self) -> Duration {
        let delays = &self.plan.delays;
        if self.draws_fault(delays.slowness) {
            self.count(SimCount::Delayed);
            return self.dice.millis(1, delays.slow);
        }
        self.dice.millis(0, delays.usual)
    }
}
