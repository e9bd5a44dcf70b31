//! Which undecided events to ring again, without a mark on any row.
//!
//! An event that is still undecided at the age of `overdue` is rung again, then at twice that age,
//! at four times, and so on: a lost doorbell is found soon, and a long backlog is not flooded with
//! its own echoes. Each sweep covers the time since the one before it, so that every doubling is
//! met exactly once, whoever sweeps.

use std::time::Duration;

use crate::time::Timestamp;

/// Events accepted in `(after, until]` are to be rung.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Band {
    pub after: Timestamp,
    pub until: Timestamp,
}

/// The bands of acceptance times whose events reached a doubling of `overdue` in `(last, now]`.
pub fn bands(last: Timestamp, now: Timestamp, overdue: Duration) -> Vec<Band> {
    let overdue = overdue.max(Duration::from_millis(1));
    (0..24)
        .map(|doubling| overdue.saturating_mul(1 << doubling))
        .map(|age| Band { after: last.minus(age), until: now.minus(age) })
        .filter(|band| band.after < band.until)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rung_at(accepted: i64, sweeps: &[(i64, i64)]) -> Vec<i64> {
        let accepted = Timestamp::from_millis(accepted);
        let overdue = Duration::from_millis(100);
        sweeps
            .iter()
            .filter(|(last, now)| {
                bands(Timestamp::from_millis(*last), Timestamp::from_millis(*now), overdue)
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
}
