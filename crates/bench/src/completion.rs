//! Recognises cheaply that all work is done.
//!
//! Counters of the workers say when it is worth asking the store; the store's answer (nothing undecided, no
//! open action) ends the run. Counters alone do not suffice: an attempt is counted before it is settled. A
//! run without progress ends too, and the final count reports what is missing.

use std::time::{Duration, Instant};

use millstream_store::backlog_gauges;

use crate::error::BenchResult;
use crate::exposition::MetricsExposition;
use crate::target::EngineUnderTest;

const EVERY: Duration = Duration::from_millis(50);
const NEAR_THE_END: Duration = Duration::from_millis(5);
/// Without progress for this long: ask the store, whatever the counters say.
const STILL: Duration = Duration::from_secs(2);
/// Without progress for this long while the store still has work: something is lost.
const STUCK: Duration = Duration::from_secs(30);

/// Work done by the workers so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct WorkCounters {
    pub(crate) decided: u64,
    pub(crate) attempted: u64,
}

impl WorkCounters {
    /// Present counters; `None` where the engine's workers cannot be asked.
    pub(crate) async fn read_counters(subject: &mut EngineUnderTest) -> BenchResult<Option<Self>> {
        let outside = subject.tasks_completed_outside();
        let seen = subject.worker_counters().await?.map(|seen| Self::from_expositions(&seen));
        Ok(seen.map(|seen| Self { attempted: seen.attempted + outside, ..seen }))
    }

    fn from_expositions(seen: &[MetricsExposition]) -> Self {
        let sum = |name: &str| seen.iter().map(|one| one.sum_series(name, "")).sum::<f64>();
        Self {
            decided: whole_number(sum("millstream_worker_decided_total")),
            attempted: whole_number(sum("millstream_worker_action_attempts_total")),
        }
    }

    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            decided: self.decided.saturating_sub(earlier.decided),
            attempted: self.attempted.saturating_sub(earlier.attempted),
        }
    }

    fn has_reached(self, wanted: Self) -> bool {
        self.decided >= wanted.decided && self.attempted >= wanted.attempted
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counters are small and not negative"
)]
fn whole_number(value: f64) -> u64 {
    value.max(0.0) as u64
}

/// Next step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CompletionStep {
    LookAgain(Duration),
    AskTheStore,
    GiveUp,
}

/// Tracks counters over time.
#[derive(Debug)]
pub(crate) struct CompletionWatch {
    last: WorkCounters,
    moved: Instant,
}

impl CompletionWatch {
    pub(crate) fn new(now: Instant) -> Self {
        Self { last: WorkCounters::default(), moved: now }
    }

    /// `wanted` is `None` while events are still being sent; `seen` is `None` where no counters are
    /// available.
    pub(crate) fn next_step(
        &mut self,
        seen: Option<WorkCounters>,
        wanted: Option<WorkCounters>,
        now: Instant,
    ) -> CompletionStep {
        if seen.is_some_and(|seen| seen != self.last) {
            self.last = seen.unwrap_or_default();
            self.moved = now;
        }
        let Some(wanted) = wanted else {
            self.moved = now;
            return CompletionStep::LookAgain(EVERY);
        };
        let still = now.duration_since(self.moved);
        match seen {
            _ if still > STUCK => CompletionStep::GiveUp,
            None => CompletionStep::AskTheStore,
            Some(seen) if seen.has_reached(wanted) || still > STILL => CompletionStep::AskTheStore,
            Some(seen) if seen.decided * 100 >= wanted.decided * 95 => {
                CompletionStep::LookAgain(NEAR_THE_END)
            }
            Some(_) => CompletionStep::LookAgain(EVERY),
        }
    }
}

/// When the work was done, and the course until then.
#[derive(Debug)]
pub(crate) struct CompletionCourse {
    /// `None`: the work was not completed.
    pub(crate) at: Option<Instant>,
    /// (time, work done since the start).
    pub(crate) course: Vec<(Instant, WorkCounters)>,
}

/// Watches from `baseline` on; `wanted` is called until it knows the amount of work.
pub(crate) async fn watch_completion(
    subject: &mut EngineUnderTest,
    baseline: WorkCounters,
    wanted: impl Fn() -> Option<WorkCounters>,
    show: impl Fn(WorkCounters),
) -> BenchResult<CompletionCourse> {
    let (mut watch, mut course) = (CompletionWatch::new(Instant::now()), Vec::new());
    loop {
        subject.check_alive()?;
        let wanted = wanted();
        let seen = WorkCounters::read_counters(subject).await?.map(|seen| seen.since(baseline));
        let now = Instant::now();
        if let Some(seen) = seen {
            course.push((now, seen));
            show(seen);
        }
        match watch.next_step(seen, wanted, now) {
            CompletionStep::LookAgain(pause) => tokio::time::sleep(pause).await,
            CompletionStep::GiveUp => return Ok(CompletionCourse { at: None, course }),
            CompletionStep::AskTheStore => {
                let metrics = subject.front_metrics().await?;
                let open = |gauge: &str| metrics.sum_series(gauge, "") - subject.initial_gauge(gauge);
                if open(backlog_gauges::UNDECIDED_EVENTS) <= 0.0 && open(backlog_gauges::OPEN_ACTIONS) <= 0.0
                {
                    return Ok(CompletionCourse { at: Some(Instant::now()), course });
                }
                // Polling costs the store time; it takes at most half of the time.
                tokio::time::sleep(now.elapsed().max(NEAR_THE_END)).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_counters(decided: u64, attempted: u64) -> Option<WorkCounters> {
        Some(WorkCounters { decided, attempted })
    }

    #[test]
    fn store_is_polled_after_counters_match() {
        let now = Instant::now();
        let mut watch = CompletionWatch::new(now);
        assert_eq!(watch.next_step(sample_counters(10, 0), None, now), CompletionStep::LookAgain(EVERY));
        assert_eq!(
            watch.next_step(sample_counters(50, 50), sample_counters(100, 100), now),
            CompletionStep::LookAgain(EVERY)
        );
        assert_eq!(
            watch.next_step(sample_counters(98, 90), sample_counters(100, 100), now),
            CompletionStep::LookAgain(NEAR_THE_END)
        );
        assert_eq!(
            watch.next_step(sample_counters(100, 99), sample_counters(100, 100), now),
            CompletionStep::LookAgain(NEAR_THE_END)
        );
        assert_eq!(
            watch.next_step(sample_counters(100, 100), sample_counters(100, 100), now),
            CompletionStep::AskTheStore
        );
    }

    #[test]
    fn stuck_counters_end_the_watch() {
        let now = Instant::now();
        let mut watch = CompletionWatch::new(now);
        watch.next_step(sample_counters(50, 50), sample_counters(100, 100), now);
        assert_eq!(
            watch.next_step(sample_counters(50, 50), sample_counters(100, 100), now + STILL * 2),
            CompletionStep::AskTheStore
        );
        assert_eq!(
            watch.next_step(sample_counters(50, 50), sample_counters(100, 100), now + STUCK * 2),
            CompletionStep::GiveUp
        );
    }

    #[test]
    fn a_long_submission_is_no_standstill() {
        let now = Instant::now();
        let mut watch = CompletionWatch::new(now);
        watch.next_step(sample_counters(0, 0), None, now + STUCK * 3);
        assert_eq!(
            watch.next_step(sample_counters(0, 0), sample_counters(1, 0), now + STUCK * 3),
            CompletionStep::LookAgain(EVERY)
        );
    }

    #[test]
    fn store_is_polled_without_counters() {
        let now = Instant::now();
        assert_eq!(
            CompletionWatch::new(now).next_step(None, sample_counters(1, 1), now),
            CompletionStep::AskTheStore
        );
    }
}
