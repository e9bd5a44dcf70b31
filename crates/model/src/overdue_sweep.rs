//! Overdue sweep: which undecided events get their doorbell re-published, without a mark on any row.
//!
//! The sweep rings an event that is still undecided at the age of `overdue`, at twice that age, at four
//! times, and so on (exponential backoff): a lost doorbell is repaired soon, and a long backlog is not
//! flooded with duplicates. Each sweep covers the time since the previous one, so that every doubling is
//! hit exactly once, on any worker.
//!
//! While doorbells wait in a long queue, their events are old without a loss: the sweep skips ages that the
//! queueing delay explains, and an event whose doorbell was lost is hit at a later doubling ([`DoorbellDelays`]).

use std::collections::BTreeMap;
use std::time::Duration;

use crate::id::TenantId;
use crate::time::Timestamp;

/// A range of acceptance times: the sweep rings events accepted in `(after, until]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SweepBand {
    pub after: Timestamp,
    pub until: Timestamp,
}

/// The bands of acceptance times whose events reached a doubling of `overdue` in `(last, now]`, without the
/// ages that a queueing delay of `queued` explains (with 50 % tolerance for growth).
pub fn overdue_bands(last: Timestamp, now: Timestamp, overdue: Duration, queued: Duration) -> Vec<SweepBand> {
    let overdue = overdue.max(Duration::from_millis(1));
    let explained = explained_age(queued);
    (0..24)
        .map(|doubling| overdue.saturating_mul(1 << doubling))
        .filter(|age| *age > explained)
        .map(|age| SweepBand { after: last.minus(age), until: now.minus(age) })
        .filter(|band| band.after < band.until)
        .collect()
}

/// The highest age that a queueing delay of `queued` explains.
pub fn explained_age(queued: Duration) -> Duration {
    queued.saturating_mul(3) / 2
}

/// Queueing delay of doorbells per tenant, measured by the worker that processes them.
///
/// The age of a mailbox head includes the wait of its doorbell. The minimum over all heads of a tenant in the
/// last two periods is the queueing delay of all its doorbells; a single event whose doorbell was lost is
/// older and does not affect the minimum. Tenants have separate queues.
#[derive(Debug, Default)]
pub struct DoorbellDelays {
    this_period: BTreeMap<TenantId, Duration>,
    last_period: BTreeMap<TenantId, Duration>,
}

/// Known queueing delay per tenant.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct QueueingDelays(BTreeMap<TenantId, Duration>);

impl DoorbellDelays {
    /// Records the age at which the head of a mailbox of this tenant was decided.
    pub fn record_decided(&mut self, tenant: &TenantId, age: Duration) {
        match self.this_period.get_mut(tenant) {
            Some(least) => *least = age.min(*least),
            None => {
                self.this_period.insert(tenant.clone(), age);
            }
        }
    }

    /// The queueing delays; starts the next period.
    pub fn next_period_delays(&mut self) -> QueueingDelays {
        let mut lengths = self.last_period.clone();
        for (tenant, age) in &self.this_period {
            lengths.entry(tenant.clone()).and_modify(|least| *least = (*age).min(*least)).or_insert(*age);
        }
        self.last_period = std::mem::take(&mut self.this_period);
        QueueingDelays(lengths)
    }
}

impl QueueingDelays {
    /// Whether the tenant's queueing delay explains events of the age `overdue`.
    pub fn explains_age(&self, tenant: &TenantId, overdue: Duration) -> bool {
        self.0.get(tenant).is_some_and(|queued| explained_age(*queued) >= overdue)
    }

    /// The longest queueing delay.
    pub fn longest_delay(&self) -> Duration {
        self.0.values().max().copied().unwrap_or_default()
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
                overdue_bands(Timestamp::from_millis(*last), Timestamp::from_millis(*now), overdue, queued)
                    .iter()
                    .any(|band| band.after < accepted && accepted <= band.until)
            })
            .map(|(_, now)| *now)
            .collect()
    }

    #[test]
    fn sweep_rings_once_per_doubling() {
        let sweeps: Vec<_> = (0..100).map(|n| (n * 50, (n + 1) * 50)).collect();
        assert_eq!(rung_at(10, &sweeps), [150, 250, 450, 850, 1650, 3250]);
    }

    #[test]
    fn late_sweep_rings_overdue_events() {
        assert_eq!(rung_at(10, &[(0, 50), (50, 4000)]), [4000]);
    }

    #[test]
    fn sweep_skips_fresh_events() {
        assert_eq!(rung_at(10, &[(0, 100)]), Vec::<i64>::new());
    }

    #[test]
    fn sweep_skips_events_in_long_queue() {
        let sweeps: Vec<_> = (0..100).map(|n| (n * 50, (n + 1) * 50)).collect();
        assert_eq!(rung_behind(Duration::from_millis(300), 10, &sweeps), [850, 1650, 3250]);
    }

    fn tenant(name: &str) -> TenantId {
        TenantId::parse(name).unwrap()
    }

    const OVERDUE: Duration = Duration::from_millis(400);

    #[test]
    fn queueing_delay_is_tenant_minimum() {
        let mut queue = DoorbellDelays::default();
        for age in [900, 300, 40_000] {
            queue.record_decided(&tenant("a"), Duration::from_millis(age));
        }
        let lengths = queue.next_period_delays();
        assert_eq!(lengths.longest_delay(), Duration::from_millis(300));
        assert!(lengths.explains_age(&tenant("a"), OVERDUE));
        assert!(!lengths.explains_age(&tenant("a"), OVERDUE * 2));
    }

    #[test]
    fn queueing_delay_is_per_tenant() {
        let mut queue = DoorbellDelays::default();
        queue.record_decided(&tenant("a"), Duration::from_millis(2));
        queue.record_decided(&tenant("b"), Duration::from_millis(700));
        let lengths = queue.next_period_delays();
        assert_eq!(lengths.longest_delay(), Duration::from_millis(700));
        let explained = ["a", "b", "c"].map(|name| lengths.explains_age(&tenant(name), OVERDUE));
        assert_eq!(explained, [false, true, false]);
    }

    #[test]
    fn queueing_delay_expires_after_two_periods() {
        let mut queue = DoorbellDelays::default();
        queue.record_decided(&tenant("a"), Duration::from_millis(700));
        let mut length = || queue.next_period_delays().longest_delay();
        let second = Duration::from_millis(700);
        assert_eq!([length(), length(), length()], [second, second, Duration::ZERO]);
    }
}
