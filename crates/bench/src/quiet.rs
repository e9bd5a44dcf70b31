//! Recognises cheaply that all work is done.
//!
//! Counters of the workers say when it is worth asking the store; the store's answer (nothing undecided, no
//! open action) ends the run. Counters alone do not suffice: an attempt is counted before it is settled. A
//! run without progress ends too, and the final count reports what is missing.

use std::time::{Duration, Instant};

use crate::error::Result;
use crate::exposition::Exposition;
use crate::target::Subject;

const EVERY: Duration = Duration::from_millis(50);
const NEAR_THE_END: Duration = Duration::from_millis(5);
/// Without progress for this long: ask the store, whatever the counters say.
const STILL: Duration = Duration::from_secs(2);
/// Without progress for this long while the store still has work: something is lost.
const STUCK: Duration = Duration::from_secs(30);

/// Work done by the workers so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counters {
    pub(crate) decided: u64,
    pub(crate) attempted: u64,
}

impl Counters {
    /// Present counters; `None` where the engine's workers cannot be asked.
    pub(crate) async fn read(subject: &mut Subject) -> Result<Option<Self>> {
        let outside = subject.completed_outside();
        let seen = subject.counters().await?.map(|seen| Self::of(&seen));
        Ok(seen.map(|seen| Self { attempted: seen.attempted + outside, ..seen }))
    }

    fn of(seen: &[Exposition]) -> Self {
        let sum = |name: &str| seen.iter().map(|one| one.sum(name, "")).sum::<f64>();
        Self {
            decided: whole(sum("millstream_worker_decided_total")),
            attempted: whole(sum("millstream_worker_action_attempts_total")),
        }
    }

    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            decided: self.decided.saturating_sub(earlier.decided),
            attempted: self.attempted.saturating_sub(earlier.attempted),
        }
    }

    fn reached(self, wanted: Self) -> bool {
        self.decided >= wanted.decided && self.attempted >= wanted.attempted
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counters are small and not negative"
)]
fn whole(value: f64) -> u64 {
    value.max(0.0) as u64
}

/// Next step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    LookAgain(Duration),
    AskTheStore,
    GiveUp,
}

/// Tracks counters over time.
#[derive(Debug)]
pub(crate) struct Watch {
    last: Counters,
    moved: Instant,
}

impl Watch {
    pub(crate) fn new(now: Instant) -> Self {
        Self { last: Counters::default(), moved: now }
    }

    /// `wanted` is `None` while events are still being sent; `seen` is `None` where no counters are
    /// available.
    pub(crate) fn judge(&mut self, seen: Option<Counters>, wanted: Option<Counters>, now: Instant) -> Next {
        if seen.is_some_and(|seen| seen != self.last) {
            self.last = seen.unwrap_or_default();
            self.moved = now;
        }
        let Some(wanted) = wanted else {
            self.moved = now;
            return Next::LookAgain(EVERY);
        };
        let still = now.duration_since(self.moved);
        match seen {
            _ if still > STUCK => Next::GiveUp,
            None => Next::AskTheStore,
            Some(seen) if seen.reached(wanted) || still > STILL => Next::AskTheStore,
            Some(seen) if seen.decided * 100 >= wanted.decided * 95 => Next::LookAgain(NEAR_THE_END),
            Some(_) => Next::LookAgain(EVERY),
        }
    }
}

/// When the work was done, and the course until then.
#[derive(Debug)]
pub(crate) struct Quiet {
    /// `None`: the work was not completed.
    pub(crate) at: Option<Instant>,
    /// (time, work done since the start).
    pub(crate) course: Vec<(Instant, Counters)>,
}

/// Watches from `baseline` on; `wanted` is called until it knows the amount of work.
pub(crate) async fn watch(
    subject: &mut Subject,
    baseline: Counters,
    wanted: impl Fn() -> Option<Counters>,
    show: impl Fn(Counters),
) -> Result<Quiet> {
    let (mut watch, mut course) = (Watch::new(Instant::now()), Vec::new());
    loop {
        subject.alive()?;
        let wanted = wanted();
        let seen = Counters::read(subject).await?.map(|seen| seen.since(baseline));
        let now = Instant::now();
        if let Some(seen) = seen {
            course.push((now, seen));
            show(seen);
        }
        match watch.judge(seen, wanted, now) {
            Next::LookAgain(pause) => tokio::time::sleep(pause).await,
            Next::GiveUp => return Ok(Quiet { at: None, course }),
            Next::AskTheStore => {
                let metrics = subject.front_metrics().await?;
                let open = |gauge: &str| metrics.sum(gauge, "") - subject.before(gauge);
                if open("millstream_undecided") <= 0.0 && open("millstream_open_actions") <= 0.0 {
                    return Ok(Quiet { at: Some(Instant::now()), course });
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

    fn done(decided: u64, attempted: u64) -> Option<Counters> {
        Some(Counters { decided, attempted })
    }

    #[test]
    fn the_store_is_asked_only_when_the_counters_say_so() {
        let now = Instant::now();
        let mut watch = Watch::new(now);
        assert_eq!(watch.judge(done(10, 0), None, now), Next::LookAgain(EVERY));
        assert_eq!(watch.judge(done(50, 50), done(100, 100), now), Next::LookAgain(EVERY));
        assert_eq!(watch.judge(done(98, 90), done(100, 100), now), Next::LookAgain(NEAR_THE_END));
        assert_eq!(watch.judge(done(100, 99), done(100, 100), now), Next::LookAgain(NEAR_THE_END));
        assert_eq!(watch.judge(done(100, 100), done(100, 100), now), Next::AskTheStore);
    }

    #[test]
    fn counters_that_stand_still_lead_to_the_store_and_then_to_giving_up() {
        let now = Instant::now();
        let mut watch = Watch::new(now);
        watch.judge(done(50, 50), done(100, 100), now);
        assert_eq!(watch.judge(done(50, 50), done(100, 100), now + STILL * 2), Next::AskTheStore);
        assert_eq!(watch.judge(done(50, 50), done(100, 100), now + STUCK * 2), Next::GiveUp);
    }

    #[test]
    fn a_long_submission_is_no_standstill() {
        let now = Instant::now();
        let mut watch = Watch::new(now);
        watch.judge(done(0, 0), None, now + STUCK * 3);
        assert_eq!(watch.judge(done(0, 0), done(1, 0), now + STUCK * 3), Next::LookAgain(EVERY));
    }

    #[test]
    fn where_nobody_counts_the_store_is_asked() {
        let now = Instant::now();
        assert_eq!(Watch::new(now).judge(None, done(1, 1), now), Next::AskTheStore);
    }
}
