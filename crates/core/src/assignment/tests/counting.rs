//! Totals are aggregated from changes, and rates computed from totals.

use std::collections::BTreeMap;
use std::time::Duration;

use super::fixture::{Desk, person};
use crate::assignment::stats::{self, Counter, Report, Totals};
use crate::assignment::{Input, Stepped, Work};

/// The aggregate of all changes in the life of an item.
fn lived(
    desk: &mut Desk,
    acts: impl FnOnce(&mut Desk, &mut dyn FnMut(&mut Desk, &Input)),
) -> BTreeMap<stats::Whose, Totals> {
    let mut sums: BTreeMap<stats::Whose, Totals> = BTreeMap::new();
    let mut act = |desk: &mut Desk, input: &Input| {
        let before: Work = desk.work.clone();
        let Stepped::Changed(change) = desk.try_step(input).unwrap() else { panic!("nothing changed") };
        for (whose, added) in stats::added(&before, &change) {
            sums.entry(whose).or_default().merge(&added);
        }
    };
    acts(desk, &mut act);
    sums
}

#[test]
fn totals_by_status_follow_from_what_was_added() {
    let mut desk = Desk::new("overlap: 2, timeout_seconds: 60");
    let (one, two, three) = (super::fixture::id(1), super::fixture::id(2), super::fixture::id(3));
    let ann = || person("ann");
    let sums = lived(&mut desk, |desk, act| {
        act(desk, &Input::Assign { person: ann(), next: one });
        act(desk, &Input::Start { assignment: one, person: ann() });
        desk.now = desk.now.plus(Duration::from_secs(60));
        act(desk, &Input::Expire { assignment: one, next: two });
        act(desk, &Input::Start { assignment: two, person: ann() });
        desk.now = desk.now.plus(Duration::from_secs(9));
        act(desk, &Input::Submit { assignment: two, person: ann(), answer: super::fixture::raw("1") });
        act(desk, &Input::Assign { person: person("bob"), next: three });
    });
    let of = |who: &str| Report::of(&sums[&(super::fixture::name("q"), Some(person(who)))]);
    let report = of("ann");
    let expected = [("completed", 1), ("expired", 1), ("in_progress", 0), ("pending", 0), ("skipped", 0)];
    assert_eq!(report.by_status, expected.into());
    assert_eq!((report.total, report.completion_rate, report.expiry_rate), (2, Some(0.5), Some(0.5)));
    assert_eq!((report.average_seconds_to_complete, report.average_attempts), (Some(10.0), Some(2.0)));
    assert_eq!(of("bob").by_status["pending"], 1);
}

#[test]
fn an_end_is_counted_once_and_what_is_left_is_open() {
    let mut desk = Desk::new("");
    let one = super::fixture::id(1);
    let sums = lived(&mut desk, |desk, act| {
        act(desk, &Input::Assign { person: person("ann"), next: one });
        act(desk, &Input::Withdraw { reason: None, by: None });
    });
    let mut all = stats::imported(3);
    sums.values().for_each(|totals| all.merge(totals));
    let report = Report::of(&all);
    assert_eq!((report.items["open"], report.items["withdrawn"]), (2, 1));
    assert_eq!((report.by_status["expired"], report.by_status["pending"]), (1, 0));
    assert_eq!(all.get(Counter::ExpiredPending), 1);
}

#[test]
fn without_assignments_there_are_no_rates() {
    let report = Report::of(&Totals::default());
    assert_eq!((report.completion_rate, report.average_attempts), (None, None));
}

#[test]
fn days_begin_at_midnight_in_utc() {
    use crate::time::Timestamp;
    assert_eq!(stats::day(Timestamp::from_millis(86_399_999)), 0);
    assert_eq!(stats::day(Timestamp::from_millis(86_400_000)), 1);
    assert_eq!(stats::day(Timestamp::from_millis(-1)), -1);
}
