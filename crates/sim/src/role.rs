//! One life of one process, and the fate of its calls to the outside.
//!
//! ```text
//! call ─→ dead? frozen? ─→ on its way ─→ dead? frozen? ─→ the effect ─→ on its way back ─→ dead? frozen? ─→ answer
//!                              refused, hung, killed ↑               ↑ answer lost, killed
//! ```
//!
//! A call that changes something is sent as a message of its own ([`SimProcess::send`]): it may arrive after its
//! sender got an error, or after its sender's death. A read has no such life ([`SimProcess::call`]).
//!
//! A killed process receives no further answer: its calls stay open, and messages that it had not sent have
//! no effect. Its tasks are dropped by [`crate::process`] in the same moment. A frozen process (SIGSTOP, a
//! long pause) gets no answers until it thaws; its own timers may fire meanwhile, but their effects wait at
//! the next call.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use millstream_store::StoreError;
use millstream_stream::StreamError;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::tally::SimCount;
use crate::world::SimWorld;

#[derive(Debug)]
pub(crate) struct SimProcess {
    pub(crate) world: Arc<SimWorld>,
    pub(crate) name: String,
    dead: AtomicBool,
    died: Notify,
    draining: Notify,
    frozen_until: Mutex<Option<Instant>>,
}

/// Fate of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallFate {
    Passes,
    Refused,
    InDoubt,
    Contention,
    Hangs,
    KilledBefore,
    KilledAfter,
    /// Arrives after the caller got an error.
    Late,
    /// Arrives after the caller's death.
    Posthumous,
}

/// How a service reports a failure.
pub(crate) trait SimFailure {
    fn unavailable(why: &str) -> Self;
    /// A conflict: nothing was written; for services that report it.
    fn contention() -> Self;
}

impl SimFailure for StoreError {
    fn unavailable(why: &str) -> Self {
        Self::Unavailable(why.to_owned())
    }

    fn contention() -> Self {
        Self::Contention("injected".to_owned())
    }
}

impl SimFailure for StreamError {
    fn unavailable(why: &str) -> Self {
        Self::Unavailable(why.to_owned())
    }

    fn contention() -> Self {
        Self::unavailable("injected")
    }
}

impl SimProcess {
    pub(crate) fn new(world: &Arc<SimWorld>, name: String) -> Arc<Self> {
        world.trace_line(&name, || "starts".to_owned());
        Arc::new(Self {
            world: Arc::clone(world),
            name,
            dead: AtomicBool::new(false),
            died: Notify::new(),
            draining: Notify::new(),
            frozen_until: Mutex::default(),
        })
    }

    pub(crate) fn trace_line(&self, text: impl FnOnce() -> String) {
        self.world.trace_line(&self.name, text);
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Relaxed)
    }

    /// From now on the process has no effect.
    pub(crate) fn kill(&self, why: SimCount) {
        if !self.dead.swap(true, Ordering::Relaxed) {
            self.world.count(why);
            self.trace_line(|| format!("dies: {}", why.name()));
            // A permit is kept for a later waiter; there may be several.
            self.died.notify_one();
            self.died.notify_waiters();
        }
    }

    /// The process ended by itself: its remaining calls have no effect.
    pub(crate) fn retire(&self) {
        self.dead.store(true, Ordering::Relaxed);
        self.died.notify_waiters();
    }

    pub(crate) async fn wait_until_dead(&self) {
        loop {
            let died = self.died.notified();
            if self.is_dead() {
                return;
            }
            died.await;
        }
    }

    pub(crate) fn drain(&self) {
        self.draining.notify_one();
    }

    pub(crate) async fn told_to_drain(&self) {
        self.draining.notified().await;
    }

    pub(crate) fn freeze(&self, length: Duration) {
        self.trace_line(|| format!("is frozen for {length:?}"));
        *self.frozen_until.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + length);
    }

    /// Returns when the process lives and is not frozen.
    pub(crate) async fn wait_while_frozen(&self) {
        loop {
            if self.is_dead() {
                return std::future::pending().await;
            }
            let until = *self.frozen_until.lock().unwrap_or_else(PoisonError::into_inner);
            match until {
                Some(until) if Instant::now() < until => tokio::time::sleep_until(until).await,
                Some(_) | None => return,
            }
        }
    }

    /// Travel time of a message, as the schedule says.
    pub(crate) async fn travel_delay(&self) {
        let delay = self.world.draw_delay();
        if delay.is_zero() {
            tokio::task::yield_now().await;
        } else {
            tokio::time::sleep(delay).await;
        }
        self.wait_while_frozen().await;
    }

    /// Sends a message to the outside and waits for the answer. `effect` happens at one instant, perhaps
    /// after the caller has stopped waiting.
    pub(crate) async fn send<R, E>(
        &self,
        name: &'static str,
        about: impl Fn() -> String,
        effect: impl Future<Output = Result<R, E>> + Send + 'static,
    ) -> Result<R, E>
    where
        R: Send,
        E: SimFailure + Send,
    {
        self.wait_while_frozen().await;
        let fate = self.draw_fate();
        if !matches!(fate, CallFate::Late | CallFate::Posthumous) {
            return self.meet_fate(fate, name, about, effect).await;
        }
        self.world.count(SimCount::Calls);
        let (world, sender, text) = (Arc::clone(&self.world), self.name.clone(), about());
        let delay = world.dice.millis(1, 2_500);
        self.trace_line(|| format!("{name} {} is under way for {delay:?}", about()));
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            let arrived = effect.await.is_ok();
            world.trace_line(&sender, || {
                format!("{name} {text} arrives late → {}", if arrived { "ok" } else { "error" })
            });
        });
        if fate == CallFate::Posthumous {
            self.kill(SimCount::Posthumous);
            return std::future::pending().await;
        }
        self.world.count(SimCount::Late);
        self.travel_delay().await;
        Err(E::unavailable("no answer in time"))
    }

    /// Reads from the outside.
    pub(crate) async fn call<R, E: SimFailure>(
        &self,
        name: &'static str,
        about: impl Fn() -> String,
        effect: impl Future<Output = Result<R, E>>,
    ) -> Result<R, E> {
        self.wait_while_frozen().await;
        self.meet_fate(self.draw_fate(), name, about, effect).await
    }

    async fn meet_fate<R, E: SimFailure>(
        &self,
        fate: CallFate,
        name: &'static str,
        about: impl Fn() -> String,
        effect: impl Future<Output = Result<R, E>>,
    ) -> Result<R, E> {
        self.world.count(SimCount::Calls);
        self.travel_delay().await;
        match fate {
            CallFate::Refused => {
                self.trace_line(|| format!("{name} {} → refused", about()));
                self.world.count(SimCount::Refused);
                return Err(E::unavailable("refused"));
            }
            CallFate::Contention => {
                self.trace_line(|| format!("{name} {} → contention", about()));
                self.world.count(SimCount::Contention);
                return Err(E::contention());
            }
            CallFate::Hangs => {
                self.trace_line(|| format!("{name} {} hangs", about()));
                tokio::time::sleep(self.world.dice.millis(200, 4_000)).await;
                self.kill(SimCount::Hang);
                return std::future::pending().await;
            }
            CallFate::KilledBefore | CallFate::Posthumous => {
                self.trace_line(|| format!("{name} {} is not made", about()));
                self.kill(SimCount::KillBefore);
                return std::future::pending().await;
            }
            CallFate::Passes | CallFate::InDoubt | CallFate::Late | CallFate::KilledAfter => {}
        }
        let answer = effect.await;
        self.trace_line(|| format!("{name} {} → {}", about(), if answer.is_ok() { "ok" } else { "error" }));
        match fate {
            CallFate::KilledAfter => {
                self.kill(SimCount::KillAfter);
                return std::future::pending().await;
            }
            CallFate::InDoubt | CallFate::Late => {
                self.world.count(SimCount::InDoubt);
                self.travel_delay().await;
                self.trace_line(|| format!("{name} {}: the answer is lost", about()));
                return Err(E::unavailable("the answer was lost"));
            }
            CallFate::Passes
            | CallFate::Refused
            | CallFate::Contention
            | CallFate::Hangs
            | CallFate::KilledBefore
            | CallFate::Posthumous => {}
        }
        self.travel_delay().await;
        answer
    }

    fn draw_fate(&self) -> CallFate {
        if self.world.is_calm() {
            return CallFate::Passes;
        }
        let rates = &self.world.plan.rates;
        let fates = [
            (rates.refused, CallFate::Refused),
            (rates.in_doubt, CallFate::InDoubt),
            (rates.contention, CallFate::Contention),
            (rates.hang, CallFate::Hangs),
            (rates.kill_before, CallFate::KilledBefore),
            (rates.kill_after, CallFate::KilledAfter),
            (rates.late, CallFate::Late),
            (rates.posthumous, CallFate::Posthumous),
        ];
        let mut thrown = u32::try_from(self.world.dice.below(100_000)).unwrap_or(u32::MAX);
        for (rate, fate) in fates {
            if thrown < rate {
                return fate;
            }
            thrown -= rate;
        }
        CallFate::Passes
    }
}
