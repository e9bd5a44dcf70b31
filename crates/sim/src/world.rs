//! Shared state of a run: randomness, counters, the trace, the unmodified store, and the guards.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use millstream_core::time::Timestamp;
use millstream_store::Stores;
use millstream_store::clock::StoreClock;
use millstream_store::memory::Memory;
use tokio::time::Instant;

use crate::bus::Bus;
use crate::check::Violation;
use crate::dice::Dice;
use crate::guard::{LeaseGuard, LockGuard};
use crate::plan::Plan;
use crate::sink::Sink;
use crate::tally::{Count, Tally};
use crate::trace::{Record, Trace};

/// Start time of every run.
pub(crate) const DAWN: Timestamp = Timestamp::from_millis(1_700_000_000_000);

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) plan: Plan,
    /// Randomness of the schedule.
    pub(crate) dice: Dice,
    pub(crate) tally: Tally,
    pub(crate) trace: Trace,
    /// The store without the fault schedule.
    pub(crate) truth: Stores,
    pub(crate) clock: Arc<StoreClock>,
    pub(crate) bus: Bus,
    pub(crate) sink: Sink,
    pub(crate) locks: LockGuard,
    pub(crate) leases: LeaseGuard,
    begun: Instant,
    calm: AtomicBool,
    seen: Mutex<Vec<Violation>>,
}

impl World {
    /// Without faults, until [`World::stir`].
    pub(crate) fn of(seed: u64, record: Record) -> Arc<Self> {
        let dice = Dice::of(seed);
        let plan = Plan::of(seed, &dice);
        let clock = Arc::new(StoreClock::starting_at(DAWN));
        Arc::new(Self {
            plan,
            tally: Tally::default(),
            trace: Trace::new(record),
            truth: Stores::of(Memory::with_clock(clock.clone())),
            clock,
            bus: Bus::new(dice.apart()),
            sink: Sink::default(),
            locks: LockGuard::default(),
            leases: LeaseGuard::default(),
            begun: Instant::now(),
            calm: AtomicBool::new(true),
            seen: Mutex::default(),
            dice,
        })
    }

    pub(crate) fn stir(&self) {
        self.calm.store(false, Ordering::Relaxed);
        self.line("world", || "the faults begin".to_owned());
    }

    pub(crate) fn calm_down(&self) {
        self.calm.store(true, Ordering::Relaxed);
        self.line("world", || "no more faults".to_owned());
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.calm.load(Ordering::Relaxed)
    }

    /// Whether a fault with this rate happens now; never after the faults have ended.
    pub(crate) fn strikes(&self, per_100k: u32) -> bool {
        !self.is_calm() && self.dice.hits(per_100k)
    }

    pub(crate) fn line(&self, role: &str, text: impl FnOnce() -> String) {
        self.trace.line(self.begun.elapsed(), role, text);
    }

    pub(crate) fn count(&self, what: Count) {
        self.tally.add(what, 1);
    }

    /// Records a violation at the time it is observed.
    pub(crate) fn accuse(&self, violation: Violation) {
        self.line("guard", || violation.to_string());
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).push(violation);
    }

    pub(crate) fn seen(&self) -> Vec<Violation> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Travel time of this call.
    pub(crate) fn delay(&self) -> Duration {
        let delays = &self.plan.delays;
        if self.strikes(delays.slowness) {
            self.count(Count::Delayed);
            return self.dice.millis(1, delays.slow);
        }
        self.dice.millis(0, delays.usual)
    }
}
