//! Totals are aggregated from changes, and rates computed from totals.

use std::collections::BTreeMap;
use std::time::Duration;

use super::fixture::{ItemFixture, person};
use crate::assignment::stats::{self, AssignmentCounter, AssignmentStats, AssignmentTotals};
use crate::assignment::{ItemAggregate, ItemInput, ItemStepOutcome};

/// The aggregate of all changes in the life of an item.
fn lived(
    desk: &mut ItemFixture,
    acts: impl FnOnce(&mut ItemFixture, &mut dyn FnMut(&mut ItemFixture, &ItemInput)),
) -> BTreeMap<stats::AssignmentTotalsKey, AssignmentTotals> {
    let mut sums: BTreeMap<stats::AssignmentTotalsKey, AssignmentTotals> = BTreeMap::new();
    let mut act = |desk: &mut ItemFixture, input: &ItemInput| {
        let before: ItemAggregate = desk.work.clone();
        let ItemStepOutcome::Changed(change) = desk.try_step(input).unwrap() else {
            panic!("nothing changed")
        };
        for (whose, added) in stats::totals_added(&before, &change) {
            sums.entry(whose).or_default().merge(&added);
        }
    };
    acts(desk, &mut act);
    sums
}

#[test]
fn status_totals_follow_from_increments() {
    let mut desk = ItemFixture::new("overlap: 2, timeout_seconds: 60");
    let (one, two, three) = (super::fixture::id(1), super::fixture::id(2), super::fixture::id(3));
    let ann = || person("ann");
    let sums = lived(&mut desk, |desk, act| {
        act(desk, &ItemInput::Assign { person: ann(), next: one });
        act(desk, &ItemInput::Start { assignment: one, person: ann() });
        desk.now = desk.now.plus(Duration::from_secs(60));
        act(desk, &ItemInput::Expire { assignment: one, next: two });
        act(desk, &ItemInput::Start { assignment: two, person: ann() });
        desk.now = desk.now.plus(Duration::from_secs(9));
        act(desk, &ItemInput::Submit { assignment: two, person: ann(), answer: super::fixture::raw("1") });
        act(desk, &ItemInput::Assign { person: person("bob"), next: three });
    });
    let of = |who: &str| AssignmentStats::from_totals(&sums[&(super::fixture::name("q"), Some(person(who)))]);
    let report = of("ann");
    let expected = [("completed", 1), ("expired", 1), ("in_progress", 0), ("pending", 0), ("skipped", 0)];
    assert_eq!(report.by_status, expected.into());
    assert_eq!((report.total, report.completion_rate, report.expiry_rate), (2, Some(0.5), Some(0.5)));
    assert_eq!((report.average_seconds_to_complete, report.average_attempts), (Some(10.0), Some(2.0)));
    assert_eq!(of("bob").by_status["pending"], 1);
}

#[test]
fn ended_item_is_counted_once() {
    let mut desk = ItemFixture::new("");
    let one = super::fixture::id(1);
    let sums = lived(&mut desk, |desk, act| {
        act(desk, &ItemInput::Assign { person: person("ann"), next: one });
        act(desk, &ItemInput::Withdraw { reason: None, by: None });
    });
    let mut all = stats::totals_of_import(3);
    sums.values().for_each(|totals| all.merge(totals));
    let report = AssignmentStats::from_totals(&all);
    assert_eq!((report.items["open"], report.items["withdrawn"]), (2, 1));
    assert_eq!((report.by_status["expired"], report.by_status["pending"]), (1, 0));
    assert_eq!(all.get(AssignmentCounter::ExpiredPending), 1);
}

#[test]
fn stats_without_assignments_have_no_rates() {
    let report = AssignmentStats::from_totals(&AssignmentTotals::default());
    assert_eq!((report.completion_rate, report.average_attempts), (None, None));
}

#[test]
fn totals_days_begin_at_utc_midnight() {
    use millstream_model::time::Timestamp;
    assert_eq!(stats::day_of(Timestamp::from_millis(86_399_999)), 0);
    assert_eq!(stats::day_of(Timestamp::from_millis(86_400_000)), 1);
    assert_eq!(stats::day_of(Timestamp::from_millis(-1)), -1);
}
