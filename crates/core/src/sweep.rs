//! Which undecided events to ring again, without a mark on any row.
//!
//! An event that is still undecided at the age of `overdue` is rung again, then at twice that age,
//! at four times, and so on: a lost doorbell is found soon, and a long backlog is not flooded with
//! its own echoes. Each sweep covers the time since the one before it, so that every doubling is
//! met exactly once, whoever sweeps.
//!
//! While doorbells wait in a long queue, an event is no older than its doorbell: ages that the queue
//! explains are left out, and one whose doorbell was lost is met at a later doubling ([`Queue`]).

use std::collections::BTreeMap;
use std::time::Duration;

use crate::lane::Lane;
use crate::time::Timestamp;

/// Events accepted in `(after, until]` are to be rung.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Band {
    pub after: Timestamp,
    pub until: Timestamp,
}

/// The bands of acceptance times whose events reached a doubling of `overdue` in `(last, now]`, and that a
/// queue in which everybody waits for `queued` does not explain. (It may have grown by half since.)
pub fn bands(last: Timestamp, now: Timestamp, overdue: Duration, queued: Duration) -> Vec<Band> {
    let overdue = overdue.max(Duration::from_millis(1));
    let explained = queued.saturating_mul(3) / 2;
    (0..24)
        .map(|doubling| overdue.saturating_mul(1 << doubling))
        .filter(|age| *age > explained)
        .map(|age| Band { after: last.minus(age), until: now.minus(age) })
        .filter(|band| band.after < band.until)
        .collect()
}

/// How long doorbells wait before they are answered, as seen by one who answers them.
///
/// The head of a mailbox has waited for its doorbell. The least that any head of a lane had waited in
/// the last two periods is what the lane's queue costs everybody; one event that was forgotten and found
/// is older than that and says nothing. The longest of the lanes counts.
#[derive(Debug, Default)]
pub struct Queue {
    this_period: BTreeMap<Lane, Duration>,
    last_period: BTreeMap<Lane, Duration>,
}

impl Queue {
    /// The head of a mailbox of this lane was decided at this age.
    pub fn decided(&mut self, lane: Lane, age: Duration) {
        self.this_period.entry(lane).and_modify(|least| *least = age.min(*least)).or_insert(age);
    }

    /// How long the queue is; begins the next period.
    pub fn length(&mut self) -> Duration {
        let (this, last) = (&self.this_period, &self.last_period);
        let least = |lane: &Lane| this.get(lane).into_iter().chain(last.get(lane)).min().copied();
        let length = this.keys().chain(last.keys()).filter_map(least).max().unwrap_or_default();
        self.last_period = std::mem::take(&mut self.this_period);
        length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rung_at(accepted: i64, sweeps: &[(i64, i64)]) -> Vec<i64> {
        rung_behind(Duration::ZERO, accepted, sweeps)
    }

    fn rung_behind(queued: Duration, accepted: i64, sweeps: &[(i64, i64)]) -> Vec<i64> {
        let accepted = Timestamp::from_millis(accepted);
        let overdue = Duration::from_millis(100);
        sweeps
            .iter()
            .filter(|(last, now)| {
                bands(Timestamp::from_millis(*last), Timestamp::from_millis(*now), overdue, queued)
                    .iter()
                    .any(|band| band.after < accepted && accepted <= band.until)
            })
            .map(|(_, now)| *now)
            .collect()
    }

    #[test]
    fn an_event_is_rung_once_at_every_doubling() {
        let sweeps: Vec<_> = (0..100).map(|n| (n * 50, (n + 1) * 50)).collect();
        assert_eq!(rung_at(10, &sweeps), [150, 250, 450, 850, 1650, 3250]);
    }

    #[test]
    fn a_late_sweep_misses_nothing() {
        assert_eq!(rung_at(10, &[(0, 50), (50, 4000)]), [4000]);
    }

    #[test]
    fn a_fresh_event_is_left_alone() {
        assert_eq!(rung_at(10, &[(0, 100)]), Vec::<i64>::new());
    }

    #[test]
    fn who_merely_waits_in_a_long_queue_is_not_rung_again() {
        let sweeps: Vec<_> = (0..100).map(|n| (n * 50, (n + 1) * 50)).collect();
        assert_eq!(rung_behind(Duration::from_millis(300), 10, &sweeps), [850, 1650, 3250]);
    }

    fn lane(number: usize) -> Lane {
        Lane::all().nth(number).unwrap()
    }

    #[test]
    fn a_queue_is_as_long_as_everybody_waits() {
        let mut queue = Queue::default();
        for age in [900, 300, 40_000] {
            queue.decided(lane(1), Duration::from_millis(age));
        }
        assert_eq!(queue.length(), Duration::from_millis(300));
    }

    #[test]
    fn a_lane_without_a_queue_does_not_hide_the_queue_of_another() {
        let mut queue = Queue::default();
        queue.decided(lane(1), Duration::from_millis(2));
        queue.decided(lane(2), Duration::from_millis(700));
        assert_eq!(queue.length(), Duration::from_millis(700));
    }

    #[test]
    fn a_queue_is_forgotten_after_two_periods() {
        let mut queue = Queue::default();
        queue.decided(lane(1), Duration::from_millis(700));
        let second = Duration::from_millis(700);
        assert_eq!([queue.length(), queue.length(), queue.length()], [second, second, Duration::ZERO]);
    }
}
