//! Thread pool for expressions that would block a runtime thread for too long.
//!
//! The common evaluation costs microseconds and runs inline, under [`EvaluationPool::inline`]: a stop rule
//! that ends it after a few milliseconds' worth of work. A stopped evaluation runs again here, on a
//! blocking thread, a bounded number at a time, under a stop rule with a clock. The clock rejects nothing:
//! an evaluation that it stops is undecided and is retried.
//!
//! A caller that goes away does not end its evaluation, which holds its permit until the clock stops it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_expr::StopRule;
use tokio::sync::Semaphore;
use tokio::task::{JoinError, spawn_blocking};

/// Inline work before an evaluation moves to the pool: about two milliseconds.
const INLINE_UNITS: u64 = 50_000;

/// Where a pool runs its work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EvaluationPlace {
    /// On blocking threads.
    #[default]
    Threads,
    /// On the caller's thread, to the end, as a simulation requires: threads have no deterministic order.
    Caller,
}

/// A bounded number of threads for expensive evaluations.
#[derive(Debug, Clone)]
pub struct EvaluationPool {
    permits: Arc<Semaphore>,
    patience: Duration,
    place: EvaluationPlace,
}

/// The process is shutting down: nothing was evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the process is shutting down")]
pub struct PoolClosed;

impl EvaluationPool {
    /// Concurrency: half of the cores, at least one; each evaluation is stopped after `patience`.
    pub fn new(patience: Duration, place: EvaluationPlace) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { permits: Arc::new(Semaphore::new((cores / 2).max(1))), patience, place }
    }

    /// The stop rule of inline evaluations.
    pub const fn inline() -> StopRule<'static> {
        StopRule { units: INLINE_UNITS, ..StopRule::NEVER }
    }

    /// Runs on a pool thread. A panic is propagated to the caller.
    pub async fn run<T: Send + 'static>(
        &self,
        evaluate: impl FnOnce(StopRule<'_>) -> T + Send + 'static,
    ) -> Result<T, PoolClosed> {
        match self.place {
            EvaluationPlace::Threads => {}
            EvaluationPlace::Caller => return Ok(evaluate(StopRule::NEVER)),
        }
        let permit = self.permits.clone().acquire_owned().await.map_err(|_| PoolClosed)?;
        let patience = self.patience;
        let evaluated = spawn_blocking(move || {
            let _permit = permit;
            let begun = Instant::now();
            let is_overdue = || begun.elapsed() > patience;
            evaluate(StopRule { units: u64::MAX, is_overdue: &is_overdue })
        });
        evaluated.await.map_err(propagate_panic)
    }
}

fn propagate_panic(error: JoinError) -> PoolClosed {
    match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => PoolClosed,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use millstream_expr::STEP_UNITS;

    use super::*;

    #[tokio::test]
    async fn pool_bounds_concurrent_evaluations() {
        let permits = Arc::new(Semaphore::new(2));
        let (patience, place) = (Duration::from_secs(60), EvaluationPlace::Threads);
        let pool = EvaluationPool { permits, patience, place };
        let (busy, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let runs = (0..50).map(|_| {
            let (busy, most) = (busy.clone(), most.clone());
            pool.run(move |_| {
                most.fetch_max(busy.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::yield_now();
                busy.fetch_sub(1, Ordering::SeqCst);
            })
        });
        futures::future::join_all(runs).await;
        assert!((1..=2).contains(&most.load(Ordering::SeqCst)));
    }

    #[test]
    fn inline_evaluation_stops_early() {
        assert!(EvaluationPool::inline().units <= STEP_UNITS / 10);
        assert!(!(EvaluationPool::inline().is_overdue)(), "no clock: what is cheap is never given up");
    }

    #[tokio::test]
    async fn pool_threads_leave_caller_thread() {
        let here = std::thread::current().id();
        for (place, stays) in [(EvaluationPlace::Threads, false), (EvaluationPlace::Caller, true)] {
            let pool = EvaluationPool::new(Duration::from_secs(60), place);
            let ran_on = pool.run(|_| std::thread::current().id()).await.unwrap();
            assert_eq!(ran_on == here, stays, "{place:?}");
        }
    }

    #[tokio::test]
    async fn evaluation_past_patience_is_overdue() {
        let pool = EvaluationPool::new(Duration::ZERO, EvaluationPlace::Threads);
        let waited = pool.run(|stop| {
            // Ends as soon as the clock has moved at all.
            while !(stop.is_overdue)() {
                std::thread::yield_now();
            }
        });
        assert_eq!(waited.await, Ok(()));
    }
}
