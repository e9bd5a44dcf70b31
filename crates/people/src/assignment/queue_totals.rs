//! Running totals of queues over all days: an aggregate of closed days plus the sums of the days that may
//! still change. Events count on the day they happened, so a closed day never changes and is read once.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use millstream_model::id::{Name, TenantId};

use super::stats::AssignmentTotals;

/// Totals by queue.
pub type TotalsByQueue = BTreeMap<(TenantId, Name), AssignmentTotals>;

/// The aggregate of closed days.
#[derive(Debug, Default)]
pub struct QueueTotals {
    /// The last closed day.
    through: Option<i64>,
    sums: TotalsByQueue,
}

impl QueueTotals {
    /// Days that are over and not aggregated yet. Yesterday stays open: the clock of another process may be
    /// behind.
    pub fn days_to_close(&mut self, today: i64) -> Option<RangeInclusive<i64>> {
        // A clock was ahead, so days were closed too early: start over.
        if self.through.is_some_and(|through| through >= today) {
            *self = Self::default();
        }
        let from = self.through.map_or(i64::MIN, |through| through.saturating_add(1));
        let to = today.saturating_sub(2);
        (from <= to).then_some(from..=to)
    }

    /// Adds the sums of these days to the aggregate.
    pub fn close_days(&mut self, days: &RangeInclusive<i64>, sums: Vec<(TenantId, Name, AssignmentTotals)>) {
        add_totals(&mut self.sums, sums);
        self.through = Some(*days.end());
    }

    /// The open days, which are read on every call.
    pub fn open_days(&self) -> RangeInclusive<i64> {
        self.through.map_or(i64::MIN, |through| through.saturating_add(1))..=i64::MAX
    }

    /// Totals over all days: the aggregate plus the sums of the open days.
    #[must_use]
    pub fn with_open_days(&self, open: Vec<(TenantId, Name, AssignmentTotals)>) -> TotalsByQueue {
        let mut all = self.sums.clone();
        add_totals(&mut all, open);
        all
    }
}

fn add_totals(all: &mut TotalsByQueue, sums: Vec<(TenantId, Name, AssignmentTotals)>) {
    for (tenant, queue, totals) in sums {
        all.entry((tenant, queue)).or_default().merge(&totals);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assignment::stats::totals_of_import;

    /// The sums a store returns: the items imported on the given days.
    fn read(days: &RangeInclusive<i64>, stored: &[(i64, i64)]) -> Vec<(TenantId, Name, AssignmentTotals)> {
        let queue = Name::parse("q").unwrap();
        let within = stored.iter().filter(|(day, _)| days.contains(day));
        within
            .map(|(_, items)| (TenantId::default_tenant(), queue.clone(), totals_of_import(*items)))
            .collect()
    }

    fn total(standings: &mut QueueTotals, today: i64, stored: &[(i64, i64)]) -> AssignmentTotals {
        if let Some(days) = standings.days_to_close(today) {
            standings.close_days(&days, read(&days, stored));
        }
        let all = standings.with_open_days(read(&standings.open_days(), stored));
        all.into_values().next().unwrap_or_default()
    }

    #[test]
    fn queue_totals_count_each_day_once() {
        let mut standings = QueueTotals::default();
        assert_eq!(total(&mut standings, 10, &[]), AssignmentTotals::default());
        assert_eq!(
            total(&mut standings, 10, &[(3, 1), (9, 2), (10, 4)]),
            totals_of_import(6),
            "day 3 was over"
        );
        let stored = [(9, 2), (10, 8), (11, 16), (12, 32)];
        for _ in 0..3 {
            assert_eq!(total(&mut standings, 12, &stored), totals_of_import(58));
        }
        // A clock that goes back a day counts nothing twice.
        assert_eq!(total(&mut standings, 11, &stored), totals_of_import(58));
        assert_eq!(total(&mut standings, 40, &stored), totals_of_import(58));
        assert_eq!(standings.days_to_close(40), None);
        // A clock that was a month ahead loses nothing either: events on the days in between are counted.
        let stored = [(9, 2), (10, 8), (11, 16), (12, 32), (13, 64)];
        assert_eq!(total(&mut standings, 13, &stored), totals_of_import(122));
    }
}
