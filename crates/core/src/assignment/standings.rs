//! Running totals of queues over all days: an aggregate of closed days plus the sums of the days that may
//! still change. Events count on the day they happened, so a closed day never changes and is read once.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::stats::Totals;
use crate::id::{Name, TenantId};

/// Totals by queue.
pub type Standing = BTreeMap<(TenantId, Name), Totals>;

/// The aggregate of closed days.
#[derive(Debug, Default)]
pub struct Standings {
    /// The last closed day.
    through: Option<i64>,
    sums: Standing,
}

impl Standings {
    /// Days that are over and not aggregated yet. Yesterday stays open: the clock of another process may be
    /// behind.
    pub fn to_close(&mut self, today: i64) -> Option<RangeInclusive<i64>> {
        // A clock was ahead, so days were closed too early: start over.
        if self.through.is_some_and(|through| through >= today) {
            *self = Self::default();
        }
        let from = self.through.map_or(i64::MIN, |through| through.saturating_add(1));
        let to = today.saturating_sub(2);
        (from <= to).then_some(from..=to)
    }

    /// Adds the sums of these days to the aggregate.
    pub fn close(&mut self, days: &RangeInclusive<i64>, sums: Vec<(TenantId, Name, Totals)>) {
        add(&mut self.sums, sums);
        self.through = Some(*days.end());
    }

    /// The open days, which are read on every call.
    pub fn open(&self) -> RangeInclusive<i64> {
        self.through.map_or(i64::MIN, |through| through.saturating_add(1))..=i64::MAX
    }

    /// Totals over all days: the aggregate plus the sums of the open days.
    #[must_use]
    pub fn with(&self, open: Vec<(TenantId, Name, Totals)>) -> Standing {
        let mut all = self.sums.clone();
        add(&mut all, open);
        all
    }
}

fn add(all: &mut Standing, sums: Vec<(TenantId, Name, Totals)>) {
    for (tenant, queue, totals) in sums {
        all.entry((tenant, queue)).or_default().merge(&totals);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assignment::stats::imported;

    /// The sums a store returns: the items imported on the given days.
    fn read(days: &RangeInclusive<i64>, stored: &[(i64, i64)]) -> Vec<(TenantId, Name, Totals)> {
        let queue = Name::parse("q").unwrap();
        let within = stored.iter().filter(|(day, _)| days.contains(day));
        within.map(|(_, items)| (TenantId::default_tenant(), queue.clone(), imported(*items))).collect()
    }

    fn total(standings: &mut Standings, today: i64, stored: &[(i64, i64)]) -> Totals {
        if let Some(days) = standings.to_close(today) {
            standings.close(&days, read(&days, stored));
        }
        let all = standings.with(read(&standings.open(), stored));
        all.into_values().next().unwrap_or_default()
    }

    #[test]
    fn every_day_is_counted_once_whenever_it_is_read() {
        let mut standings = Standings::default();
        assert_eq!(total(&mut standings, 10, &[]), Totals::default());
        assert_eq!(total(&mut standings, 10, &[(3, 1), (9, 2), (10, 4)]), imported(6), "day 3 was over");
        let stored = [(9, 2), (10, 8), (11, 16), (12, 32)];
        for _ in 0..3 {
            assert_eq!(total(&mut standings, 12, &stored), imported(58));
        }
        // A clock that goes back a day counts nothing twice.
        assert_eq!(total(&mut standings, 11, &stored), imported(58));
        assert_eq!(total(&mut standings, 40, &stored), imported(58));
        assert_eq!(standings.to_close(40), None);
        // A clock that was a month ahead loses nothing either: events on the days in between are counted.
        let stored = [(9, 2), (10, 8), (11, 16), (12, 32), (13, 64)];
        assert_eq!(total(&mut standings, 13, &stored), imported(122));
    }
}
