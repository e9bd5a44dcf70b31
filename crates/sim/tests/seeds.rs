//! A thousand seeds: every guarantee holds, and every kind of fault occurs.

#![expect(
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "test code beside the test functions; a new kind has to happen as often as the others"
)]

use millstream_sim::fleet::run_all;
use millstream_sim::tally::SimCount;

/// Seeds per test: the runner has two cores, and each test its own thread.
const PART: u64 = 250;

fn run_part(number: u64) {
    let verdict = run_all(number * PART, PART, 1);
    if let Some(broken) = verdict.broken {
        let violations: Vec<String> = broken.violations.iter().map(ToString::to_string).collect();
        panic!(
            "seed {}:\n{}\ntry: cargo run -p millstream-sim -- --trace {}",
            broken.seed,
            violations.join("\n"),
            broken.seed
        );
    }
    let missing: Vec<&str> = SimCount::ALL
        .iter()
        .filter(|what| verdict.counts.of(**what) < least_count(**what))
        .map(|what| what.name())
        .collect();
    assert!(missing.is_empty(), "too few of {missing:?}:\n{}", verdict.counts.table());
}

/// What must have happened in every part, or the checks had nothing to find.
fn least_count(what: SimCount) -> u64 {
    match what {
        SimCount::LateInput => 1,
        SimCount::Retried => 3,
        // Every other seed has a backlog.
        SimCount::BacklogDecided => PART * 50,
        _ => 5,
    }
}

macro_rules! parts {
    ($($name:ident: $number:expr),+ $(,)?) => {
        $(
            #[test]
            fn $name() {
                run_part($number);
            }
        )+
    };
}

parts! {
    promises_are_kept_in_the_first_part: 0,
    promises_are_kept_in_the_second_part: 1,
    promises_are_kept_in_the_third_part: 2,
    promises_are_kept_in_the_fourth_part: 3,
}
