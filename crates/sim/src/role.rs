//! One life of one process, and the fate of its calls to the outside.
//!
//! ```text
//! call ─→ dead? frozen? ─→ on its way ─→ dead? frozen? ─→ the effect ─→ on its way back ─→ dead? frozen? ─→ answer
//!                              refused, hung, killed ↑               ↑ answer lost, killed
//! ```
//!
//! A call that changes something is sent as a message of its own ([`Role::send`]): it may arrive after its
//! sender got an error, or after its sender's death. A read has no such life ([`Role::call`]).
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

use crate::tally::Count;
use crate::world::World;

#[derive(Debug)]
pub(crate) struct Role {
    pub(crate) world: Arc<World>,
    pub(crate) name: String,
    dead: AtomicBool,
    died: Notify,
    draining: Notify,
    frozen_until: Mutex<Option<Instant>>,
}

/// Fate of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
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
pub(crate) trait Failure {
    fn unavailable(why: &str) -> Self;
    /// A conflict: nothing was written; for services that report it.
    fn contention() -> Self;
}

impl Failure for StoreError {
    fn unavailable(why: &str) -> Self {
        Self::Unavailable(why.to_owned())
    }

    fn contention() -> Self {
        Self::Contention("injected".to_owned())
    }
}

impl Failure for StreamError {
    fn unavailable(why: &str) -> Self {
        Self::Unavailable(why.to_owned())
    }

    fn contention() -> Self {
        Self::unavailable("injected")
    }
}

impl Role {
    pub(crate) fn new(world: &Arc<World>, name: String) -> Arc<Self> {
        world.line(&name, || "starts".to_owned());
        Arc::new(Self {
            world: Arc::clone(world),
            name,
            dead: AtomicBool::new(false),
            died: Notify::new(),
            draining: Notify::new(),
            frozen_until: Mutex::default(),
        })
    }

    pub(crate) fn line(&self, text: impl FnOnce() -> String) {
        self.world.line(&self.name, text);
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Relaxed)
    }

    /// From now on the process has no effect.
    pub(crate) fn kill(&self, why: Count) {
        if !self.dead.swap(true, Ordering::Relaxed) {
            self.world.count(why);
            self.line(|| format!("dies: {}", why.name()));
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

    pub(crate) async fn died(&self) {
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
        self.line(|| format!("is frozen for {length:?}"));
        *self.frozen_until.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + length);
    }

    /// Returns when the process lives and is not frozen.
    pub(crate) async fn alive(&self) {
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
    pub(crate) async fn travel(&self) {
        let delay = self.world.delay();
        if delay.is_zero() {
            tokio::task::yield_now().await;
        } else {
            tokio::time::sleep(delay).await;
        }
        self.alive().await;
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
        E: Failure + Send,
    {
        self.alive().await;
        let fate = self.fate();
        if !matches!(fate, Fate::Late | Fate::Posthumous) {
            return self.meet(fate, name, about, effect).await;
        }
        self.world.count(Count::Calls);
        let (world, sender, text) = (Arc::clone(&self.world), self.name.clone(), about());
        let delay = world.dice.millis(1, 2_500);
        self.line(|| format!("{name} {} is under way for {delay:?}", about()));
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            let arrived = effect.await.is_ok();
            world.line(&sender, || {
                format!("{name} {text} arrives late → {}", if arrived { "ok" } else { "error" })
            });
        });
        if fate == Fate::Posthumous {
            self.kill(Count::Posthumous);
            return std::future::pending().await;
        }
        self.world.count(Count::Late);
        self.travel().await;
        Err(E::unavailable("no answer in time"))
    }

    /// Reads from the outside.
    pub(crate) async fn call<R, E: Failure>(
        &self,
        name: &'static str,
        about: impl Fn() -> String,
        effect: impl Future<Output = Result<R, E>>,
    ) -> Result<R, E> {
        self.alive().await;
        self.meet(self.fate(), name, about, effect).await
    }

    async fn meet<R, E: Failure>(
        &self,
        fate: Fate,
        name: &'static str,
        about: impl Fn() -> String,
        effect: impl Future<Output = Result<R, E>>,
    ) -> Result<R, E> {
        self.world.count(Count::Calls);
        self.travel().await;
        match fate {
            Fate::Refused => {
                self.line(|| format!("{name} {} → refused", about()));
                self.world.count(Count::Refused);
                return Err(E::unavailable("refused"));
            }
            Fate::Contention => {
                self.line(|| format!("{name} {} → contention", about()));
                self.world.count(Count::Contention);
                return Err(E::contention());
            }
            Fate::Hangs => {
                self.line(|| format!("{name} {} hangs", about()));
                tokio::time::sleep(self.world.dice.millis(200, 4_000)).await;
                self.kill(Count::Hang);
                return std::future::pending().await;
            }
            Fate::KilledBefore | Fate::Posthumous => {
                self.line(|| format!("{name} {} is not made", about()));
                self.kill(Count::KillBefore);
                return std::future::pending().await;
            }
            Fate::Passes | Fate::InDoubt | Fate::Late | Fate::KilledAfter => {}
        }
        let answer = effect.await;
        self.line(|| format!("{name} {} → {}", about(), if answer.is_ok() { "ok" } else { "error" }));
        match fate {
            Fate::KilledAfter => {
                self.kill(Count::KillAfter);
                return std::future::pending().await;
            }
            Fate::InDoubt | Fate::Late => {
                self.world.count(Count::InDoubt);
                self.travel().await;
                self.line(|| format!("{name} {}: the answer is lost", about()));
                return Err(E::unavailable("the answer was lost"));
            }
            Fate::Passes
            | Fate::Refused
            | Fate::Contention
            | Fate::Hangs
            | Fate::KilledBefore
            | Fate::Posthumous => {}
        }
        self.travel().await;
        answer
    }

    fn fate(&self) -> Fate {
        if self.world.is_calm() {
            return Fate::Passes;
        }
        let rates = &self.world.plan.rates;
        let fates = [
            (rates.refused, Fate::Refused),
            (rates.in_doubt, Fate::InDoubt),
            (rates.contention, Fate::Contention),
            (rates.hang, Fate::Hangs),
            (rates.kill_before, Fate::KilledBefore),
            (rates.kill_after, Fate::KilledAfter),
            (rates.late, Fate::Late),
            (rates.posthumous, Fate::Posthumous),
        ];
        let mut thrown = u32::try_from(self.world.dice.below(100_000)).unwrap_or(u32::MAX);
        for (rate, fate) in fates {
            if thrown < rate {
                return fate;
            }
            thrown -= rate;
        }
        Fate::Passes
    }
}
